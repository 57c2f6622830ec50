"""The topic in which groups keep their state, as a broker finds it: in the metadata, or by having it made.

It does not exist before somebody asks for the coordinator of a group. Whoever asks first makes it, and all
who ask meanwhile wait for the same attempt. It is there for this broker when its own metadata tells of it,
not before: the number of partitions, and who leads them, come from there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, NoReturn

from quorate.broker.groups.wake_up import WakeUp
from quorate.core.backoff import Backoff
from quorate.core.clock import Clock
from quorate.core.ids import TopicId
from quorate.core.logging import get_logger
from quorate.core.topic_names import OFFSETS_TOPIC, topic_id_from
from quorate.errors import CoordinatorNotAvailable, QuorateError
from quorate.metadata.image import MetadataImage, TopicImage

__all__ = ["OffsetsTopic"]

log = get_logger(__name__)

_TOPIC_ID_BYTES: Final = 16
#: An election of a controller fits into it; whoever waits longer is told to come again.
_WAIT_S: Final = 5.0


class OffsetsTopic:
    def __init__(
        self,
        image: Callable[[], MetadataImage],
        create: Callable[[TopicId], Awaitable[None]],
        *,
        clock: Clock,
        backoff: Backoff,
        random_bytes: Callable[[int], bytes],
    ) -> None:
        """``create``: asks the controller for it, under that id unless it exists."""
        self._image = image
        self._create = create
        self._clock = clock
        self._backoff = backoff
        self._random_bytes = random_bytes
        self._is_wanted = asyncio.Event()
        #: the topic is there, or an attempt has failed
        self._news = WakeUp()
        #: why the last attempt failed
        self._failure: QuorateError | None = None

    def find(self) -> TopicImage | None:
        return self._image().topic_named(OFFSETS_TOPIC)

    async def require(self, timeout_s: float) -> TopicImage:
        """The topic, made if need be; ``CoordinatorNotAvailable`` if that cannot be done in time."""
        deadline = self._clock.monotonic() + min(timeout_s, _WAIT_S)
        while (topic := self.find()) is None:
            remaining_s = deadline - self._clock.monotonic()
            if remaining_s <= 0:
                raise self._not_available()
            self._is_wanted.set()
            await self._news.wait(self._clock, remaining_s)
        return topic

    def image_changed(self) -> None:
        if self.find() is not None:
            self._news.wake()

    async def run(self) -> NoReturn:
        """Makes the topic when it is wanted. Until cancelled."""
        while True:
            await self._is_wanted.wait()
            self._is_wanted.clear()
            if self.find() is not None:
                continue
            try:
                await self._create(topic_id_from(self._random_bytes(_TOPIC_ID_BYTES)))
            except QuorateError as error:
                log.warning("offsets_topic_not_created", code=error.code, reason=error.message)
                self._failure = error
                # Whoever waits has time for another attempt, or is told why there was none.
                await self._clock.sleep(self._backoff.next_s())
                self._news.wake()
            else:
                self._failure = None
                self._backoff.reset()

    def _not_available(self) -> CoordinatorNotAvailable:
        reason = "it is being made" if self._failure is None else self._failure.message
        return CoordinatorNotAvailable(
            f"the topic {OFFSETS_TOPIC} does not exist yet: {reason}",
            cause=None if self._failure is None else self._failure.code,
        )
