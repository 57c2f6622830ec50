"""Memory that was freed stays with the process, for the next message.

A message of a megabyte is memory of a megabyte several times over: as it was read, as it was put together, as
it leaves. The C library gives so much back to the kernel as soon as it is freed, and asks for it again a
moment later; the kernel then hands it out anew page by page, each of them zeroed. That was more than half of
what a broker did for a consumer (docs/performance.md, "Memory that comes and goes").

It is for processes that are ours alone: how a program's memory is managed is no business of a library in it.
"""

from __future__ import annotations

import ctypes
import os
from typing import Final

__all__ = ["keep_freed_memory"]

#: What is larger than this comes from the kernel and goes back to it: more than any message of ours.
_LARGEST_KEPT_BYTES: Final = 16 << 20
#: Where so much lies free at the end of the heap, it goes back all the same.
_KEPT_BYTES_MAX: Final = 32 << 20

#: <malloc.h>
_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3

#: by which whoever runs the process has decided already
_SETTINGS: Final = ("GLIBC_TUNABLES", "MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_")


def keep_freed_memory() -> bool:
    """Whether it was asked for: only the GNU C library takes it, and the environment may say otherwise."""
    if any(name in os.environ for name in _SETTINGS):
        return False
    try:
        set_option = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return False
    largest_was_set = set_option(_M_MMAP_THRESHOLD, _LARGEST_KEPT_BYTES)
    most_was_set = set_option(_M_TRIM_THRESHOLD, _KEPT_BYTES_MAX)
    return bool(largest_was_set and most_was_set)
