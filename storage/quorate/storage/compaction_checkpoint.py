"""How far a log is compacted, on the device.

Below ``first_dirty_offset`` every key has one record at most. That is what allows a tombstone to go: there
is nothing older left that it keeps from coming back. So the offset is raised only when all that lies below
it has been cleaned on the device.

What compaction has removed is missing only because something newer is there, further on in the log. A log
that is cut below that point, which takes a leader that lacks committed records (rule 11), would have lost
both. So ``superseded_below`` is raised before the first record goes, and whoever cuts the log below it has
to drop all of it, and fetch it anew.

A log that was copied from a compacted one lacks the same, although it was never compacted itself. So a
follower takes over what it is told of its leader's (``Compacted``), before it copies the first batch that may
lack something. That may speak of offsets that it has not come to yet.

So when the file has rotted, the log does not tell how far that goes: the end of a copy that is not finished
says nothing. Then it is *unknown*, as if it went on for ever, which asks for too much at times and never for
too little, until a leader settles it (``PartitionLog.note_complete``) or the log is dropped.

A tombstone stays for ``delete.retention.ms`` after everything that it deletes is gone, for readers that have
seen the deleted record and have yet to hear of its end. When that time begins a batch does not say: by the
clock of its producer it may be years old. Each pass therefore leaves a ``Horizon`` if it has met tombstones.
Kafka writes the time into the batches; then every tombstone is written twice.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from quorate.core.clock import Clock
from quorate.core.disk import Disk
from quorate.core.ids import Offset, TimestampMs
from quorate.core.logging import get_logger
from quorate.storage.checkpoint import DamagedCheckpoint, read_checkpoint, write_durably
from quorate.storage.log_context import tolerate_full_disk
from quorate.storage.log_files import COMPACTION_CHECKPOINT_NAME

__all__ = [
    "NOT_COMPACTED",
    "Compacted",
    "CompactionCheckpoint",
    "Horizon",
    "load_compaction",
    "save_compaction",
]

log = get_logger(__name__)

#: passes whose tombstones wait for their time; beyond that, those of two passes wait together
_HORIZONS_MAX: Final = 16
_FIRST_OFFSET: Final = Offset(0)
#: beyond all that there will ever be, and an offset like any other on the disk and on the way
_ANYWHERE: Final = Offset((1 << 63) - 1)


class Compacted(NamedTuple):
    """What is missing from a log: all that whoever copies it has to know."""

    #: records are missing because of newer ones, all of which are below this
    superseded_below: Offset = _FIRST_OFFSET
    #: tombstones below may be missing: a replica that ends before this may hold what they deleted
    tombstones_removed_below: Offset = _FIRST_OFFSET

    @property
    def is_unknown(self) -> bool:
        """What has replaced missing records may lie anywhere."""
        return self.superseded_below == _ANYWHERE

    def and_also(self, other: Compacted) -> Compacted:
        """What is missing from a log that lacks both."""
        return Compacted(
            max(self.superseded_below, other.superseded_below),
            max(self.tombstones_removed_below, other.tombstones_removed_below),
        )


NOT_COMPACTED: Final = Compacted()


class Horizon(NamedTuple):
    #: exclusive: where the tombstones end that wait for this
    offset: Offset
    #: nothing that they delete was there any more
    since_ms: TimestampMs


@dataclass(frozen=True, slots=True)
class CompactionCheckpoint:
    #: exclusive end of what has one record for each key at most
    first_dirty_offset: Offset = _FIRST_OFFSET
    compacted: Compacted = NOT_COMPACTED
    #: ascending, by offset as well as by time
    horizons: tuple[Horizon, ...] = ()

    def __post_init__(self) -> None:
        assert self.first_dirty_offset <= self.compacted.superseded_below
        assert all(horizon.offset <= self.first_dirty_offset for horizon in self.horizons)

    def expired_tombstones_end(self, *, now_ms: TimestampMs, delete_retention_ms: int) -> Offset:
        """Tombstones below (exclusive) have stayed for long enough."""
        expired = (each.offset for each in self.horizons if now_ms - each.since_ms >= delete_retention_ms)
        return max(expired, default=_FIRST_OFFSET)

    def copied_from(self, leader: Compacted) -> CompactionCheckpoint:
        """Before anything is copied that may lack something for the leader's compaction."""
        return replace(self, compacted=self.compacted.and_also(leader))

    def complete_at(self, log_end_offset: Offset) -> CompactionCheckpoint:
        """The log holds everything for whose sake something is missing."""
        if not self.compacted.is_unknown:
            return self
        return replace(self, compacted=self.compacted._replace(superseded_below=log_end_offset))

    def begun(self, *, end_offset: Offset, tombstones_end: Offset) -> CompactionCheckpoint:
        """Before a pass that cleans up to ``end_offset`` removes anything."""
        return replace(self, compacted=self.compacted.and_also(Compacted(end_offset, tombstones_end)))

    def finished(
        self, *, end_offset: Offset, tombstones_end: Offset, has_new_tombstones: bool, now_ms: TimestampMs
    ) -> CompactionCheckpoint:
        """After the pass: no tombstone is left below ``tombstones_end``."""
        horizons = [horizon for horizon in self.horizons if horizon.offset > tombstones_end]
        if has_new_tombstones:
            since_ms = max([now_ms, *(horizon.since_ms for horizon in horizons)])
            horizons.append(Horizon(end_offset, since_ms))
        # Tombstones whose own one is dropped wait for the next: longer, never for less.
        return replace(self, first_dirty_offset=end_offset, horizons=tuple(horizons[-_HORIZONS_MAX:]))


async def load_compaction(
    disk: Disk, directory: str, *, log_end_offset: Offset, clock: Clock | None = None
) -> CompactionCheckpoint:
    """As it was saved. If that cannot be read, anything may be missing, and nothing counts as cleaned.

    Tombstones are missing among what is here at most. That is then on record, and has to be: found anew at
    every start it would be said of later ones too, and whoever copies this log would begin anew each time.
    """
    try:
        state = read_checkpoint(disk, f"{directory}/{COMPACTION_CHECKPOINT_NAME}")
    except DamagedCheckpoint as damaged:
        log.warning("compaction_checkpoint_damaged", path=damaged.path, reason=damaged.reason)
        unknown = CompactionCheckpoint(compacted=Compacted(_ANYWHERE, log_end_offset))
        with tolerate_full_disk("write the compaction checkpoint anew", directory):
            await save_compaction(disk, directory, unknown, clock=clock)
        return unknown
    return CompactionCheckpoint() if state is None else _from_state(state)


async def save_compaction(
    disk: Disk, directory: str, checkpoint: CompactionCheckpoint, *, clock: Clock | None = None
) -> None:
    """On the device when this returns."""
    state = {
        "first_dirty_offset": checkpoint.first_dirty_offset,
        "superseded_below": checkpoint.compacted.superseded_below,
        "tombstones_removed_below": checkpoint.compacted.tombstones_removed_below,
        "horizons": [list(horizon) for horizon in checkpoint.horizons],
    }
    await write_durably(disk, f"{directory}/{COMPACTION_CHECKPOINT_NAME}", state, clock=clock)


def _from_state(state: dict[str, Any]) -> CompactionCheckpoint:
    return CompactionCheckpoint(
        Offset(state["first_dirty_offset"]),
        Compacted(Offset(state["superseded_below"]), Offset(state["tombstones_removed_below"])),
        tuple(Horizon(Offset(offset), TimestampMs(since_ms)) for offset, since_ms in state["horizons"]),
    )
