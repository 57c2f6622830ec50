"""Lines from a descriptor, as they come.

A line is looked for in what was just read and kept in parts until its end arrives: searching or joining
what is pending again with every read would take quadratic time for a long line. What is kept is bounded,
because a file without line ends would otherwise be read into memory as a whole before it is refused.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from typing import Final

from quorate.console.output import StreamError
from quorate.errors import BatchTooLarge

__all__ = ["CannotReadInput", "read_lines"]

_CHUNK_BYTES: Final = 256 << 10


class CannotReadInput(StreamError):
    """The descriptor is closed, a directory, or on a disk that fails."""

    code = "CANNOT_READ_INPUT"


async def read_lines(descriptor: int, *, line_bytes_max: int) -> AsyncIterator[list[bytes]]:
    """Whole lines without their ends, as many as lie ready; a last line may lack its end.

    Raises BatchTooLarge at a line of more than ``line_bytes_max``, after the lines before it.
    """
    parts: list[bytes] = []
    parts_bytes = 0
    lines_before = 0
    while chunk := await _read(descriptor):
        *lines, rest = chunk.split(b"\n")
        if lines:
            lines[0] = b"".join([*parts, lines[0]])
            parts, parts_bytes = [], 0
            yield lines
            lines_before += len(lines)
        parts.append(rest)
        parts_bytes += len(rest)
        if parts_bytes > line_bytes_max:
            raise BatchTooLarge(
                f"line {lines_before + 1} is longer than {line_bytes_max} bytes", line=lines_before + 1
            )
    if parts_bytes:
        yield [b"".join(parts)]


async def _read(descriptor: int) -> bytes:
    await _readable(descriptor)
    try:
        return os.read(descriptor, _CHUNK_BYTES)
    except OSError as error:
        raise CannotReadInput(str(error.strerror)) from error


async def _readable(descriptor: int) -> None:
    """Returns once a read would not block. A thread would be simpler, and could not be interrupted."""
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    try:
        loop.add_reader(descriptor, ready.set)
    except PermissionError:
        return  # a regular file, which is always ready
    try:
        await ready.wait()
    finally:
        loop.remove_reader(descriptor)
