"""The broker of a node: its data directory, its topics, and the services that work on them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NoReturn

from google.protobuf.message import Message

from quorate.broker.handlers.create_topic import CreateTopicHandler
from quorate.broker.handlers.describe_topic import DescribeTopicHandler
from quorate.broker.handlers.fetch import FetchHandler
from quorate.broker.handlers.list_offsets import ListOffsetsHandler
from quorate.broker.handlers.list_topics import ListTopicsHandler
from quorate.broker.handlers.produce import ProduceHandler
from quorate.broker.local_metadata import LocalMetadata
from quorate.broker.topic_registry import TopicRegistry
from quorate.core.clock import Clock
from quorate.core.config import NodeConfig
from quorate.core.disk import Disk
from quorate.core.ids import BrokerEpoch
from quorate.core.logging import get_logger
from quorate.core.transport import Call, Service, UnaryHandler, methods_of
from quorate.errors import UnsupportedOperation
from quorate.storage import LogContext, LogDirectory, OpenFiles
from quorate.v1 import admin_pb2, broker_pb2

__all__ = ["Broker"]

log = get_logger(__name__)

_ADMIN: Final = admin_pb2.DESCRIPTOR.services_by_name["AdminService"]

#: Descriptors kept for sealed segments; each active segment has one of its own.
_SEALED_FILES_OPEN_MAX: Final = 512


class Broker:
    """Opened, it serves; ``close`` ends what waits and leaves a clean directory."""

    def __init__(
        self,
        config: NodeConfig,
        clock: Clock,
        directory: LogDirectory,
        topics: TopicRegistry,
        broker_epoch: BrokerEpoch,
    ) -> None:
        """For ``open``."""
        self._broker_epoch = broker_epoch
        self._config = config
        self._clock = clock
        self._directory = directory
        self._topics = topics
        self._fetch = FetchHandler(config, topics, clock)

    @classmethod
    async def open(
        cls,
        config: NodeConfig,
        *,
        clock: Clock,
        disk: Disk,
        random_bytes: Callable[[int], bytes],
        on_fatal: Callable[[str], NoReturn],
    ) -> Broker:
        """Take the data directory, recover what has to be, and lead every partition."""
        context = LogContext(disk, clock, OpenFiles(disk, files_max=_SEALED_FILES_OPEN_MAX), on_fatal)
        directory = await LogDirectory.open(context, config.data_dir)
        try:
            metadata = LocalMetadata.open(disk, config.data_dir, config.node_id)
            topics = TopicRegistry(config, directory, metadata, random_bytes=random_bytes)
            await topics.open()
        except BaseException:
            # Not every log was opened, so nobody may vouch for them: no marker.
            await directory.abandon()
            raise
        return cls(config, clock, directory, topics, metadata.broker_epoch)

    def services(self) -> Sequence[Service]:
        config, topics = self._config, self._topics
        return [
            Service(
                broker_pb2.DESCRIPTOR.services_by_name["BrokerService"],
                {
                    "Produce": ProduceHandler(config, topics, self._clock),
                    "Fetch": self._fetch,
                    "ListOffsets": ListOffsetsHandler(config, topics),
                },
            ),
            Service(
                _ADMIN,
                {
                    **{name: _not_without_a_quorum(name) for name in methods_of(_ADMIN)},
                    "CreateTopic": CreateTopicHandler(config, topics),
                    "ListTopics": ListTopicsHandler(topics),
                    "DescribeTopic": DescribeTopicHandler(config, topics),
                },
            ),
        ]

    def release_waiting(self) -> None:
        """Answer the fetches that wait, so that a stop need not wait for them."""
        self._fetch.stop()

    async def maintain_forever(self) -> None:
        """Retention and recovery points, now and then; for the node to run as a task, until cancelled."""
        while True:
            await self._clock.sleep(self._config.log_retention_check_interval_ms / 1000)
            await self._directory.maintain(self._topics.high_watermark_of)
            # Afterwards: what retention has freed may be what was missing.
            await self._topics.lead_waiting()

    async def close(self) -> bool:
        """Sync and close every log. True if the next start need not recover anything."""
        self.release_waiting()
        await self._topics.stop()
        is_clean = await self._directory.close(broker_epoch=self._broker_epoch)
        log.info("data_directory_closed", path=self._config.data_dir, clean=is_clean)
        return is_clean


def _not_without_a_quorum(method: str) -> UnaryHandler[Any, Any]:
    async def refuse(_request: Message, _call: Call) -> Message:
        raise UnsupportedOperation(f"{method} needs a metadata quorum; this broker runs without one")

    return refuse
