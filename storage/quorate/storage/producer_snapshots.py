"""Producer state on disk: a snapshot at every roll and clean stop, the batches for the rest (rule 49)."""

from __future__ import annotations

from collections.abc import Sequence

from quorate.core.disk import Disk
from quorate.core.ids import Offset
from quorate.core.logging import get_logger
from quorate.storage.checkpoint import DamagedCheckpoint, read_checkpoint, write_cached
from quorate.storage.file_writes import sync_file
from quorate.storage.log_files import list_snapshots, snapshot_path
from quorate.storage.producer_state import ProducerStates
from quorate.storage.segment import Segment
from quorate.storage.steps import HEADERS_PER_STEP, Steps, run_in_turns

__all__ = [
    "keep_snapshot",
    "load_snapshot",
    "remove_snapshots",
    "replay_producers",
    "save_snapshot",
    "sync_snapshot",
]

log = get_logger(__name__)


def save_snapshot(disk: Disk, directory: str, producers: ProducerStates, end_offset: Offset) -> None:
    """The state before ``end_offset``, to the page cache; ``sync_snapshot`` makes it durable."""
    write_cached(disk, snapshot_path(directory, end_offset), producers.to_state())


async def keep_snapshot(disk: Disk, directory: str, segments: Sequence[Segment], end_offset: Offset) -> None:
    """Before the batches up to ``end_offset`` go: nothing else will tell of their producers then.

    As long as they are there, a snapshot that is missing or damaged is no loss.
    """
    if load_snapshot(disk, directory, end_offset) is None:
        producers = await run_in_turns(replay_producers(disk, directory, segments, end_offset))
        save_snapshot(disk, directory, producers, end_offset)
    await sync_snapshot(disk, directory, end_offset)


async def sync_snapshot(disk: Disk, directory: str, end_offset: Offset) -> None:
    """To the device (the name excluded), if there is one."""
    path = snapshot_path(directory, end_offset)
    if disk.exists(path):
        await sync_file(disk, path)


def load_snapshot(disk: Disk, directory: str, end_offset: Offset) -> ProducerStates | None:
    """The state before ``end_offset``, if there is a snapshot of just that and it is whole."""
    try:
        state = read_checkpoint(disk, snapshot_path(directory, end_offset))
    except DamagedCheckpoint as damaged:
        log.warning("producer_snapshot_damaged", path=damaged.path, reason=damaged.reason)
        return None
    return None if state is None else ProducerStates.from_state(state)


def replay_producers(
    disk: Disk, directory: str, segments: Sequence[Segment], end_offset: Offset
) -> Steps[ProducerStates]:
    """The state before ``end_offset``: the newest snapshot at or before it, and the batches since."""
    producers, replay_from = ProducerStates(), Offset(0)
    for offset in reversed(list_snapshots(disk, directory)):
        found = load_snapshot(disk, directory, offset) if offset <= end_offset else None
        if found is not None:
            producers, replay_from = found, offset
            break
    for segment in segments:
        if segment.next_offset <= replay_from or segment.base_offset >= end_offset:
            continue
        start = segment.position_of(max(replay_from, segment.base_offset))
        for count, (_, header) in enumerate(segment.walk(start)):
            if header.base_offset >= end_offset:
                break
            if count % HEADERS_PER_STEP == 0:
                yield
            if header.producer_id >= 0:
                producers.apply(header, header.base_offset)
    return producers


def remove_snapshots(
    disk: Disk, directory: str, *, below: Offset | None = None, above: Offset | None = None
) -> None:
    for offset in list_snapshots(disk, directory):
        if (below is not None and offset < below) or (above is not None and offset > above):
            disk.unlink(snapshot_path(directory, offset))
