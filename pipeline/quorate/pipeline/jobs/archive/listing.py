"""Which files a Parquet archive consists of, while a job writes to it.

Files are put in place one by one. Whoever lists them in between would find a batch in part, or miss what
small files held that are being replaced. What is true, the state file says: it changes before the first file
is touched and after the last, and names what is left to do in between. So a listing with the same state
before and after it, and nothing left to do, is whole.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Final, TypeVar

from quorate.errors import InvalidRequest

__all__ = ["listed_whole"]

T = TypeVar("T")

_LOOKS_MAX: Final = 300
_PAUSE_S: Final = 0.1


def listed_whole(path: str, state_file: str, look: Callable[[], T], *, looks_max: int = _LOOKS_MAX) -> T:
    """What ``look`` finds in a moment in which no file is being put in place or removed."""
    for _ in range(looks_max):
        before = _content(state_file)
        if not _is_pending(before):
            found = look()
            if _content(state_file) == before:
                return found
        time.sleep(_PAUSE_S)
    raise InvalidRequest(
        f"{path}: files are being put in place. If no job writes to it, one was killed: run that archive job "
        f"again, which finishes it",
        path=path,
    )


def _content(state_file: str) -> bytes:
    """Nothing: the files were made by somebody else, who has to say when they are whole."""
    try:
        with open(state_file, "rb") as file:
            return file.read()
    except FileNotFoundError:
        return b""


def _is_pending(content: bytes) -> bool:
    if not content:
        return False
    state = json.loads(content)
    return bool(state["removals"] or state["renames"])
