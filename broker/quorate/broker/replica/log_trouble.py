"""Errors by which a replica has failed, rather than what was attempted with it (rules 11 and 44)."""

from __future__ import annotations

from typing import Final

from quorate.errors import LogDamaged, QuorateError, StorageFailed

__all__ = ["LOG_TROUBLE", "is_log_trouble"]

#: for ``except``
LOG_TROUBLE: Final = (LogDamaged, StorageFailed)


def is_log_trouble(error: QuorateError) -> bool:
    return isinstance(error, LOG_TROUBLE)
