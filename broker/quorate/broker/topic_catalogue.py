"""Which topics this node has, on disk: one checksummed file, replaced whole.

A topic exists from the moment its entry is on the device. The partitions' directories are made
before, so a crash in between leaves directories without an entry: they are reported at the next
start and left alone, because "nobody knows this directory" never proves that nobody needs it
(rule 42). The reverse, an entry without its directory, is a loss and is reported as one.

The file stands in for the metadata quorum, which will own this knowledge.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from quorate.core.disk import Disk
from quorate.core.ids import TopicId, TopicName
from quorate.errors import StorageFailed
from quorate.storage.checkpoint import DamagedCheckpoint, read_checkpoint, write_durably

__all__ = ["CatalogueEntry", "TopicCatalogue"]

_FILE_NAME: Final = "topics"


@dataclass(frozen=True, slots=True)
class CatalogueEntry:
    name: TopicName
    topic_id: TopicId
    partition_count: int
    #: settings of the topic itself, as text
    configs: Mapping[str, str]


class TopicCatalogue:
    __slots__ = ("_disk", "_entries", "_path")

    def __init__(self, disk: Disk, data_directory: str) -> None:
        self._disk = disk
        self._path = f"{data_directory}/{_FILE_NAME}"
        self._entries = {entry.name: entry for entry in self._load()}

    def __iter__(self) -> Iterator[CatalogueEntry]:
        return iter(self._entries.values())

    async def add(self, entry: CatalogueEntry) -> None:
        """Returns once the entry is on the device; if that fails, it is not in the catalogue."""
        assert entry.name not in self._entries
        entries = {**self._entries, entry.name: entry}
        try:
            await write_durably(self._disk, self._path, _to_state(entries.values()))
        except OSError as error:
            raise StorageFailed(f"cannot write {self._path}: {error}", path=self._path) from error
        self._entries = entries

    def _load(self) -> list[CatalogueEntry]:
        try:
            state = read_checkpoint(self._disk, self._path)
        except DamagedCheckpoint as damaged:
            # Going on without it would make every topic unknown, and the next CreateTopic would
            # overwrite what is left of it (rule 42).
            raise StorageFailed(
                f"the list of topics is damaged: {damaged}; restore the file from a copy, or move it away to "
                "start without topics (their data stays)",
                path=self._path,
            ) from damaged
        except OSError as error:
            raise StorageFailed(f"cannot read {self._path}: {error}", path=self._path) from error
        return [] if state is None else _from_state(state)


def _to_state(entries: Iterable[CatalogueEntry]) -> dict[str, Any]:
    return {
        "topics": [
            {
                "name": entry.name,
                "topic_id": entry.topic_id,
                "partition_count": entry.partition_count,
                "configs": dict(entry.configs),
            }
            for entry in entries
        ]
    }


def _from_state(state: dict[str, Any]) -> list[CatalogueEntry]:
    return [
        CatalogueEntry(
            TopicName(topic["name"]), TopicId(topic["topic_id"]), topic["partition_count"], topic["configs"]
        )
        for topic in state["topics"]
    ]
