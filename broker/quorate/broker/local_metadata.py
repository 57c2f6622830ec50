"""What this node knows of topics and of its own starts, on disk: one checksummed file, replaced whole.

It stands in for the metadata quorum, which will own this knowledge.

*Topics.* A topic exists from the moment its entry is on the device. The partitions' directories are
made before, so a crash in between leaves directories without an entry: they are reported at the next
start and left alone, because "nobody knows this directory" never proves that nobody needs it
(rule 42). The reverse, an entry without its directory, is a loss and is reported as one.

*Broker epoch.* It grows with every start, and it is the leader epoch of every partition until the
next one. Taking the log's latest epoch plus one was rejected: an epoch leaves no trace in a log if
its records were lost with the power, and the next start would then write other records at the same
offsets in the same epoch (rule 5).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from quorate.core.disk import Disk
from quorate.core.ids import BrokerEpoch, TopicId, TopicName
from quorate.errors import StorageFailed
from quorate.storage.checkpoint import DamagedCheckpoint, read_checkpoint, write_durably

__all__ = ["LocalMetadata", "TopicEntry"]

_FILE_NAME: Final = "metadata"
_BEFORE_THE_FIRST_START: Final = BrokerEpoch(-1)


@dataclass(frozen=True, slots=True, eq=False)
class TopicEntry:
    name: TopicName
    topic_id: TopicId
    partition_count: int
    #: settings of the topic itself, as text
    configs: Mapping[str, str]


class LocalMetadata:
    __slots__ = ("_disk", "_path", "_topics", "broker_epoch")

    def __init__(
        self, disk: Disk, path: str, broker_epoch: BrokerEpoch, topics: Mapping[TopicName, TopicEntry]
    ) -> None:
        """For ``open``."""
        self._disk = disk
        self._path = path
        self._topics = topics
        self.broker_epoch = broker_epoch

    @classmethod
    async def open(cls, disk: Disk, data_directory: str) -> LocalMetadata:
        """Load what is known, and begin a new broker epoch; it is on the device when this returns."""
        path = f"{data_directory}/{_FILE_NAME}"
        state = _read(disk, path)
        topics = [TopicEntry(**topic) for topic in state["topics"]]
        metadata = cls(
            disk,
            path,
            BrokerEpoch(state["broker_epoch"] + 1),
            {topic.name: topic for topic in topics},
        )
        await metadata._write(metadata._topics)
        return metadata

    def topics(self) -> Iterator[TopicEntry]:
        return iter(self._topics.values())

    async def add_topic(self, topic: TopicEntry) -> None:
        """Returns once the topic is on the device; if that fails, there is no such topic."""
        assert topic.name not in self._topics
        topics = {**self._topics, topic.name: topic}
        await self._write(topics)
        self._topics = topics

    async def _write(self, topics: Mapping[TopicName, TopicEntry]) -> None:
        state = {
            "broker_epoch": self.broker_epoch,
            "topics": [asdict(topic) for topic in topics.values()],
        }
        try:
            await write_durably(self._disk, self._path, state)
        except OSError as error:
            raise StorageFailed(f"cannot write {self._path}: {error}", path=self._path) from error


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
