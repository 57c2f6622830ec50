"""Whether a replica's files still hold what was appended: seen without the product's own reader.

A reader that has stopped to compare checksums finds nothing wrong with anything. So what has rotted is found
here by a second way, and the reader has to find it too (rule 44).
"""

from __future__ import annotations

from quorate.broker.replica.partition import Partition
from quorate.chaos.cluster.machine import SimMachine
from quorate.chaos.invariants.copies import batches_in

__all__ = ["forget_what_is_in_memory", "has_rotted"]


def has_rotted(machine: SimMachine, replica: Partition) -> bool:
    """Below its high watermark; False where its broker knows of damage already."""
    log = replica.log
    if log.damage is not None:
        return False
    for segment in log._state.segments:
        if segment.base_offset >= replica.high_watermark:
            break
        content = machine.disk.peek(segment.path)[: segment.size]
        end = max((each.next_offset for each in batches_in(content, is_sound=False)), default=None)
        if end is None or end < min(segment.next_offset, replica.high_watermark):
            return True
    return False


def forget_what_is_in_memory(replica: Partition) -> None:
    """From here on whoever reads reads files, until something is appended."""
    replica.log._state.recent.forget()
