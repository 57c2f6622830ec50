"""What this node knows of topics and of its own starts, on disk: one checksummed file, replaced whole.

It stands in for the metadata quorum, which will own this knowledge.

*Topics.* A topic exists from the moment its entry is on the device. The partitions' directories are
made before, so a crash in between leaves directories without an entry: they are reported at the next
start and left alone, because "nobody knows this directory" never proves that nobody needs it
(rule 42). The reverse, an entry without its directory, is a loss and is reported as one.

*Node id.* The directory belongs to the node that began it. Another one is refused: two volumes that were
mixed up must not pass for each other's replicas.

*Broker epoch.* It grows with every start, and it is the leader epoch of every partition until the
next one. Taking the log's latest epoch plus one was rejected: an epoch leaves no trace in a log if
its records were lost with the power, and the next start would then write other records at the same
offsets in the same epoch (rule 5).

A full disk must not keep a node from starting: only a started node serves reads and frees space. So
the epoch may begin before it is on the device, and ``persist_epoch`` has to succeed before anybody
leads in it. If the process ends before that, the next one begins the same epoch again, and no batch
carries it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from quorate.core.disk import Disk
from quorate.core.ids import BrokerEpoch, BrokerId, TopicId, TopicName
from quorate.errors import DiskFull, InvalidConfig, StorageFailed
from quorate.storage.checkpoint import DamagedCheckpoint, read_checkpoint, write_durably
from quorate.storage.log_context import is_disk_full
from quorate.storage.log_directory import METADATA_NAME

__all__ = ["LocalMetadata", "TopicEntry"]

_BEFORE_THE_FIRST_START: Final = BrokerEpoch(-1)


@dataclass(frozen=True, slots=True, eq=False)
class TopicEntry:
    name: TopicName
    topic_id: TopicId
    partition_count: int
    #: settings of the topic itself, as text
    configs: Mapping[str, str]


class LocalMetadata:
    __slots__ = ("_disk", "_is_epoch_durable", "_node_id", "_path", "_topics", "_writing", "broker_epoch")

    def __init__(
        self,
        disk: Disk,
        path: str,
        node_id: BrokerId,
        broker_epoch: BrokerEpoch,
        topics: Mapping[TopicName, TopicEntry],
    ) -> None:
        """For ``open``."""
        self._node_id = node_id
        self._disk = disk
        self._path = path
        self._topics = topics
        self._is_epoch_durable = False
        #: one write at a time: they share the name of the temporary file
        self._writing = asyncio.Lock()
        self.broker_epoch = broker_epoch

    @classmethod
    def open(cls, disk: Disk, data_directory: str, node_id: BrokerId) -> LocalMetadata:
        """Load what is known, and begin a new broker epoch; ``persist_epoch`` puts it on record."""
        path = f"{data_directory}/{METADATA_NAME}"
        state = _read(disk, path)
        owner = state.get("node_id", node_id)
        if owner != node_id:
            raise InvalidConfig(
                f"{data_directory} belongs to node {owner}, but node.id is {node_id}; "
                "give the node its own directory, or the directory its own node",
                path=data_directory,
                node_id=node_id,
            )
        topics = [TopicEntry(**topic) for topic in state["topics"]]
        return cls(
            disk,
            path,
            node_id,
            BrokerEpoch(state["broker_epoch"] + 1),
            {topic.name: topic for topic in topics},
        )

    def topics(self) -> Iterator[TopicEntry]:
        return iter(self._topics.values())

    async def persist_epoch(self) -> None:
        """Returns once the broker epoch is on the device: from then on it may be led in."""
        async with self._writing:
            if not self._is_epoch_durable:
                await self._write(self._topics)

    async def add_topic(self, topic: TopicEntry) -> None:
        """Returns once the topic is on the device. DiskFull: it is not, and will not be.

        After StorageFailed nobody knows what the next start will find.
        """
        async with self._writing:
            assert topic.name not in self._topics
            topics = {**self._topics, topic.name: topic}
            await self._write(topics)
            self._topics = topics

    async def _write(self, topics: Mapping[TopicName, TopicEntry]) -> None:
        state = {
            "broker_epoch": self.broker_epoch,
            "node_id": self._node_id,
            "topics": [asdict(topic) for topic in topics.values()],
        }
        try:
            await write_durably(self._disk, self._path, state)
        except OSError as error:
            if is_disk_full(error):
                raise DiskFull(f"no space left to write {self._path}", path=self._path) from error
            raise StorageFailed(f"cannot write {self._path}: {error}", path=self._path) from error
        self._is_epoch_durable = True


def _read(disk: Disk, path: str) -> dict[str, Any]:
    try:
        state = read_checkpoint(disk, path)
    except DamagedCheckpoint as damaged:
        # Going on without it would make every topic unknown, and the next CreateTopic would overwrite
        # what is left of it (rule 42).
        raise StorageFailed(
            f"the list of topics is damaged: {damaged}; restore the file from a copy, or move it away to "
            "start without topics (their data stays)",
            path=path,
        ) from damaged
    except OSError as error:
        raise StorageFailed(f"cannot read {path}: {error}", path=path) from error
    return state if state is not None else {"broker_epoch": _BEFORE_THE_FIRST_START, "topics": []}
