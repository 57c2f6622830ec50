"""One way to refuse a start: what is wrong, where, and what a person can do about it."""

from __future__ import annotations

from typing import Final

from quorate.errors import QuorumDamaged

__all__ = ["quorum_damaged"]

_WHAT_TO_DO: Final = (
    "This voter may have forgotten a vote or an entry that it answered for, so it does not start. "
    "Keep the files, remove the voter from the quorum, start it with an empty directory and add it again"
)


def quorum_damaged(path: str, reason: str, *, position: int | None = None) -> QuorumDamaged:
    where = path if position is None else f"{path} at byte {position}"
    return QuorumDamaged(f"{where}: {reason}. {_WHAT_TO_DO}", path=path, position=position)
