"""Producer state on disk: a snapshot at every roll and clean stop, the batches for the rest (rule 49).

There may be tens of thousands of producers, and to read or write them all takes tenths of a second: that is
done in steps.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import islice

from quorate.core.disk import Disk
from quorate.core.ids import Offset
from quorate.core.logging import get_logger
from quorate.errors import CorruptBatch
from quorate.storage.checkpoint import (
    DamagedCheckpoint,
    read_checkpoint,
    write_body_cached,
    write_body_synced,
)
from quorate.storage.file_writes import sync_file
from quorate.storage.log_files import list_snapshots, snapshot_path
from quorate.storage.producer_state import ProducerStates
from quorate.storage.segment import Segment
from quorate.storage.steps import HEADERS_PER_STEP, Steps, run_at_once, run_in_turns

__all__ = [
    "encode_snapshot",
    "keep_snapshot",
    "load_snapshot",
    "newest_snapshot",
    "remove_snapshots",
    "replay_expired",
    "replay_producers",
    "save_snapshot",
    "sync_snapshot",
    "write_snapshot",
]

log = get_logger(__name__)


def save_snapshot(disk: Disk, directory: str, producers: ProducerStates, end_offset: Offset) -> None:
    """The state before ``end_offset``, to the page cache; ``sync_snapshot`` makes it durable.

    Only where the batches just before ``end_offset`` are there: else it may take the place of one that is
    needed (``write_snapshot``).
    """
    body = run_at_once(encode_snapshot(producers))
    write_body_cached(disk, snapshot_path(directory, end_offset), body)


def encode_snapshot(producers: ProducerStates) -> Steps[bytes]:
    """What ``write_snapshot`` takes; nothing may change meanwhile."""
    rows, parts = producers.rows(), []
    while part := list(islice(rows, HEADERS_PER_STEP)):
        parts.append(json.dumps(part, separators=(",", ":")).encode()[1:-1])
        yield
    return b'{"producers":[' + b",".join(parts) + b"]}"


async def write_snapshot(disk: Disk, directory: str, encoded: bytes, end_offset: Offset) -> None:
    """On the device before it takes the place of another, which may be the only one to tell of producers.

    Its name is not. The caller holds ``files_lock``: two at a time would write one file.
    """
    await write_body_synced(disk, snapshot_path(directory, end_offset), encoded)


async def keep_snapshot(disk: Disk, directory: str, segments: Sequence[Segment], end_offset: Offset) -> None:
    """Before the batches up to ``end_offset`` go: nothing else will tell of their producers then.

    As long as they are there, a snapshot that is missing or damaged is no loss.
    """
    if await run_in_turns(_loaded(disk, directory, end_offset)) is not None:
        await sync_snapshot(disk, directory, end_offset)
        return
    producers = await run_in_turns(replay_producers(disk, directory, segments, end_offset))
    await write_snapshot(disk, directory, await run_in_turns(encode_snapshot(producers)), end_offset)


async def sync_snapshot(disk: Disk, directory: str, end_offset: Offset) -> None:
    """To the device (the name excluded), if there is one."""
    path = snapshot_path(directory, end_offset)
    if disk.exists(path):
        await sync_file(disk, path)


def load_snapshot(disk: Disk, directory: str, end_offset: Offset) -> ProducerStates | None:
    """The state before ``end_offset``, if there is a snapshot of just that and it is whole."""
    return run_at_once(_loaded(disk, directory, end_offset))


def _loaded(disk: Disk, directory: str, end_offset: Offset) -> Steps[ProducerStates | None]:
    try:
        state = read_checkpoint(disk, snapshot_path(directory, end_offset))
    except DamagedCheckpoint as damaged:
        log.warning("producer_snapshot_damaged", path=damaged.path, reason=damaged.reason)
        return None
    if state is None:
        return None
    producers, rows = ProducerStates(), iter(state["producers"])
    while part := list(islice(rows, HEADERS_PER_STEP)):
        producers.take(part)
        yield
    return producers


def newest_snapshot(
    disk: Disk, directory: str, offsets: Sequence[Offset]
) -> Steps[tuple[Offset, ProducerStates] | None]:
    """Of those at the offsets, which ascend, the last that is there and whole."""
    for offset in reversed(offsets):
        found = yield from _loaded(disk, directory, offset)
        if found is not None:
            return offset, found
    return None


def replay_producers(
    disk: Disk, directory: str, segments: Sequence[Segment], end_offset: Offset
) -> Steps[ProducerStates]:
    """The state before ``end_offset``: the newest snapshot at or before it, and the batches since."""
    offsets = [offset for offset in list_snapshots(disk, directory) if offset <= end_offset]
    found = yield from newest_snapshot(disk, directory, offsets)
    replay_from, producers = found or (Offset(0), ProducerStates())
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


def replay_expired(
    disk: Disk, directory: str, segments: Sequence[Segment], end_offset: Offset
) -> Steps[tuple[ProducerStates, bool]]:
    """As ``replay_producers``, of segments that nobody has checked: as far as they are sound.

    And whether all are, to their ends.
    """
    offsets = [offset for offset in list_snapshots(disk, directory) if offset <= end_offset]
    found = yield from newest_snapshot(disk, directory, offsets)
    replay_from, producers = found or (Offset(0), ProducerStates())
    are_sound = True
    ends = [*(segment.base_offset for segment in segments[1:]), end_offset]
    for segment, end in zip(segments, ends, strict=True):
        if end <= replay_from:
            continue
        segment.size = disk.size(segment.path)
        try:
            yield from _apply_sound_batches(segment, producers, replay_from, end)
        except CorruptBatch as error:
            log.warning("expired_segment_damaged", path=segment.path, reason=error.message)
            are_sound = False
    return producers, are_sound


def _apply_sound_batches(
    segment: Segment, producers: ProducerStates, replay_from: Offset, end_offset: Offset
) -> Steps[None]:
    due = segment.base_offset
    for count, (header, _) in enumerate(segment.batches()):
        if count % HEADERS_PER_STEP == 0:
            yield
        if header.next_offset > end_offset:
            break
        due = header.next_offset
        if header.producer_id >= 0 and header.base_offset >= replay_from:
            producers.apply(header, header.base_offset)
    if due != end_offset:
        raise CorruptBatch(f"sound batches end at offset {due}, the next segment starts at {end_offset}")


def remove_snapshots(
    disk: Disk, directory: str, *, below: Offset | None = None, above: Offset | None = None
) -> None:
    for offset in list_snapshots(disk, directory):
        if (below is not None and offset < below) or (above is not None and offset > above):
            disk.unlink(snapshot_path(directory, offset))
