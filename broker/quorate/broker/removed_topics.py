"""Tells the controller once nothing of a deleted topic is left here (rule 42).

The metadata lists a deleted topic with every broker that may still hold something of it. This broker is
struck off when it says so; until then it says so again, also after a restart.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, NoReturn

from quorate.core.clock import Clock
from quorate.core.ids import BrokerId, TopicId
from quorate.core.logging import get_logger
from quorate.errors import QuorateError
from quorate.metadata.image import MetadataImage
from quorate.storage import LogDirectory

__all__ = ["RemovedTopics"]

log = get_logger(__name__)

_RETRY_S: Final = 5.0


class RemovedTopics:
    def __init__(
        self,
        broker_id: BrokerId,
        logs: LogDirectory,
        *,
        clock: Clock,
        confirm: Callable[[Sequence[TopicId]], Awaitable[None]],
        is_creating_any_of: Callable[[TopicId], bool],
    ) -> None:
        """``is_creating_any_of``: a log of the topic is being made, and may appear on disk yet."""
        self._broker_id = broker_id
        self._logs = logs
        self._clock = clock
        self._confirm = confirm
        self._is_creating_any_of = is_creating_any_of
        self._image: MetadataImage | None = None
        self._may_be_news = asyncio.Event()

    def image_changed(self, image: MetadataImage) -> None:
        before, self._image = self._image, image
        if before is None or before.removed_topics is not image.removed_topics:
            self._may_be_news.set()

    def log_deleted(self) -> None:
        self._may_be_news.set()

    async def run(self) -> NoReturn:
        """Until cancelled."""
        while True:
            await self._may_be_news.wait()
            self._may_be_news.clear()
            try:
                topic_ids = self._gone()
                if topic_ids:
                    await self._confirm(topic_ids)
            except QuorateError as error:
                # Also for want of a descriptor to look which logs are here.
                log.warning("removed_topics_not_confirmed", reason=error.message)
                await self._clock.sleep(_RETRY_S)
                self._may_be_news.set()

    def _gone(self) -> list[TopicId]:
        if self._image is None:
            return []
        held = {key.topic_id for key in self._logs.partitions_on_disk()}
        return sorted(
            topic.topic_id
            for topic in self._image.removed_topics.values()
            if self._broker_id in topic.broker_ids
            and topic.topic_id not in held
            and not self._is_creating_any_of(topic.topic_id)
        )
