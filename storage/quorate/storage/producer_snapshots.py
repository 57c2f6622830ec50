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
from quorate.storage.checkpoint import DamagedCheckpoint, read_checkpoint, write_body_cached
from quorate.storage.file_writes import sync_file
from quorate.storage.log_files import list_snapshots, snapshot_path
from quorate.storage.producer_state import ProducerStates
from quorate.storage.segment import Segment
from quorate.storage.steps import HEADERS_PER_STEP, Steps, run_at_once, run_in_turns

__all__ = [
    "encode_snapshot",
    "keep_snapshot",
    "load_snapshot",
    "remove_snapshots",
    "replay_producers",
    "save_snapshot",
    "sync_snapshot",
    "write_snapshot",
]

log = get_logger(__name__)


def save_snapshot(disk: Disk, directory: str, producers: ProducerStates, end_offset: Offset) -> None:
    """The state before ``end_offset``, to the page cache; ``sync_snapshot`` makes it durable."""
    write_snapshot(disk, directory, run_at_once(encode_snapshot(producers)), end_offset)


def encode_snapshot(producers: ProducerStates) -> Steps[bytes]:
    """What ``write_snapshot`` takes; nothing may change meanwhile."""
    rows, parts = producers.rows(), []
    while part := list(islice(rows, HEADERS_PER_STEP)):
        parts.append(json.dumps(part, separators=(",", ":")).encode()[1:-1])
        yield
    return b'{"producers":[' + b",".join(parts) + b"]}"


def write_snapshot(disk: Disk, directory: str, encoded: bytes, end_offset: Offset) -> None:
    write_body_cached(disk, snapshot_path(directory, end_offset), encoded)


async def keep_snapshot(disk: Disk, directory: str, segments: Sequence[Segment], end_offset: Offset) -> None:
    """Before the batches up to ``end_offset`` go: nothing else will tell of their producers then.

    As long as they are there, a snapshot that is missing or damaged is no loss.
    """
    if await run_in_turns(_loaded(disk, directory, end_offset)) is None:
        producers = await run_in_turns(replay_producers(disk, directory, segments, end_offset))
        encoded = await run_in_turns(encode_snapshot(producers))
        write_snapshot(disk, directory, encoded, end_offset)
    await sync_snapshot(disk, directory, end_offset)


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


def replay_producers(
    disk: Disk, directory: str, segments: Sequence[Segment], end_offset: Offset
) -> Steps[ProducerStates]:
    """The state before ``end_offset``: the newest snapshot at or before it, and the batches since."""
    producers, replay_from = ProducerStates(), Offset(0)
    for offset in reversed(list_snapshots(disk, directory)):
        found = (yield from _loaded(disk, directory, offset)) if offset <= end_offset else None
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
