"""Standard streams that do not take what is written to them."""

from __future__ import annotations

import os
from typing import TextIO

__all__ = ["forget_stream"]


def forget_stream(stream: TextIO) -> None:
    """Nobody takes what is left in it: from now on it leads nowhere.

    Otherwise the interpreter would try once more at exit, complain, and end with a status of its own.
    """
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, stream.fileno())
    finally:
        os.close(nowhere)
