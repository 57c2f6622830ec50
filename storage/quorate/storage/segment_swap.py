"""Putting a cleaned segment in the place of those that it was made of.

Problem. One file is to replace several at once, and no file system does that. Whatever the moment of a
crash, and whatever of the directory's unsynced changes a power loss takes, a start has to find the old
segments or the new one: not both, not a part, and never an index of the one beside the batches of the
other.

    1  <first>-<end>.cleaned is written and synced             crash: it is removed, the old ones are the log
    2  it is renamed to <first>-<end>.swap, directory synced   from here on the new one is the log
    3  old indexes and all old segments but the first go,
       directory synced                                        crash: a start goes on with 3
    4  it is renamed over the first, directory synced          crash: likewise, or it is done
    5  its indexes are written                                 crash: they are built when they are needed

The name of the ``.swap`` file is the decision. It tells the range that it replaces, stands on the device
before anything of that range goes, and is there until all else is gone: the sync between 3 and 4 sees to
that also where a file system would do them in another order.

Earlier segments are swapped before later ones are even looked at. So a tombstone goes only when the absence
of what it deletes is on the device.

Readers go on meanwhile. What they have open they keep, and from step 2 on the new segment stands in the list
of segments, first under the name of the ``.swap`` file.

Rejected: one more checkpoint that names what is to be replaced (the name of a file is one, and costs no
sync of its own); finding overlapping segments at a start by their offsets (every one had to be read for
that).
"""

from __future__ import annotations

from collections.abc import Sequence

from quorate.core.disk import Disk
from quorate.core.logging import get_logger
from quorate.storage.log_context import tolerate_full_disk
from quorate.storage.log_files import SNAPSHOT_SUFFIX, SWAP_SUFFIX, Span, list_offsets, list_swaps
from quorate.storage.log_state import LogState
from quorate.storage.segment import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX, Segment, segment_path

__all__ = ["finish_swaps", "swap_in"]

log = get_logger(__name__)


async def swap_in(state: LogState, old: Sequence[Segment], new: Segment, span: Span) -> None:
    """``new`` is finished, and on the device. The caller holds ``files_lock`` and is not cancelled."""
    context, directory = state.context, state.directory
    try:
        new.move_to(span.path(directory, SWAP_SUFFIX))
    except OSError as error:
        raise state.storage_error("swap a cleaned segment into", directory, error) from error
    try:
        await context.disk.fsync_directory(directory)
        first = state.segments.index(old[0])
        state.segments[first : first + len(old)] = [new]
        for segment in old:
            segment.retire()
        _remove_replaced(context.disk, directory, span)
        await context.disk.fsync_directory(directory)
        new.move_to(segment_path(directory, span.base_offset, LOG_SUFFIX))
        await context.disk.fsync_directory(directory)
        with tolerate_full_disk("write indexes", directory):
            new.persist_indexes()
    except OSError as error:
        # Half done: what is in the way of the next change to these files only a start can finish.
        raise state.storage_failed("swap a cleaned segment into", directory, error) from error
    new.retire()


async def finish_swaps(disk: Disk, directory: str) -> None:
    """At a start, before segments are looked at: what was decided before a crash is done."""
    for span in list_swaps(disk, directory):
        log.info("segment_swap_finished", path=directory, **span._asdict())
        _remove_replaced(disk, directory, span)
        await disk.fsync_directory(directory)
        disk.rename(span.path(directory, SWAP_SUFFIX), segment_path(directory, span.base_offset, LOG_SUFFIX))
        await disk.fsync_directory(directory)


def _remove_replaced(disk: Disk, directory: str, span: Span) -> None:
    """All but the first segment's batches, which the new one's replace."""
    for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX):
        for offset in list_offsets(disk, directory, suffix):
            if span.base_offset <= offset < span.end_offset:
                disk.unlink(segment_path(directory, offset, suffix))
    # Of snapshots those go that no segment begins at: nobody asks for producers there any more.
    for suffix in (LOG_SUFFIX, SNAPSHOT_SUFFIX):
        for offset in list_offsets(disk, directory, suffix):
            if span.base_offset < offset < span.end_offset:
                disk.unlink(segment_path(directory, offset, suffix))
