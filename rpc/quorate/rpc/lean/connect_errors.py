"""Why a connection was not made, in words for whoever reads the error.

What Python says of it carries numbers that nobody looks up, and names the address as a tuple.
"""

from __future__ import annotations

import os
from typing import Final

__all__ = ["why_not_connected"]

#: asyncio's own words, in place of the system's
_ASYNCIO_WORDS: Final = "Connect call failed"


def why_not_connected(error: Exception) -> str:
    if not isinstance(error, OSError) or error.strerror is None:
        return str(error)
    if error.errno is not None and error.strerror.startswith(_ASYNCIO_WORDS):
        return os.strerror(error.errno)
    return error.strerror
