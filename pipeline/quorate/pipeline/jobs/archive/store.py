"""What an archive has to be able to do, whatever its files are."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from quorate.pipeline.jobs.archive.staged import Ends, Staged
from quorate.pipeline.jobs.batch import Batch

__all__ = ["ArchiveStore", "Compaction"]


@dataclass(slots=True)
class Compaction:
    """What has become of small files."""

    files_gone: int = 0
    #: by directory: why its files stay small. Nothing of it is changed, and the next start tries again.
    failures: dict[str, str] = field(default_factory=dict)


class ArchiveStore(Protocol):
    """Used by one job at a time."""

    def open(self, topic_ids: dict[str, str]) -> None:
        """Finish or undo what an earlier run left in the middle.

        Refuse topics that are not those of before.
        """

    @property
    def is_empty(self) -> bool:
        """Nothing was ever committed to it."""

    def new_staging(self) -> str:
        """A directory for a batch, not made yet.

        Whatever is not committed from it is gone at the next start.
        """

    def ends_of(self, staged: Staged) -> Ends:
        """How far the partitions of this batch are archived; those of which nothing is are left out."""

    def commit(self, staged: Staged, batch: Batch) -> None:
        """All of it, and how far it reaches, or nothing."""

    def compact(self, directories: set[str]) -> Compaction:
        """Make large files of small ones there.

        What is committed is whole either way: where it cannot be done nothing is changed, and nothing raised.
        """
