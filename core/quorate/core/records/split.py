"""Taking apart what lies end to end in a fetch answer."""

from __future__ import annotations

from collections.abc import Iterator

from quorate.core.records.codec import parse_header
from quorate.core.records.format import Buffer

__all__ = ["split_batches"]


def split_batches(batches: Buffer) -> Iterator[memoryview]:
    """Each batch in turn, without a copy and without a look at its checksum.

    The last one is shorter than its header says if the bytes end in the middle of it; whoever
    decodes or checks it will find out.
    """
    view = memoryview(batches)
    position = 0
    while position < len(view):
        end = position + parse_header(view, position).size_in_bytes
        yield view[position:end]
        position = end
