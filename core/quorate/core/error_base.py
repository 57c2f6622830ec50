"""The root of every error: see ``quorate.errors``, which has the whole tree."""

from __future__ import annotations

from typing import ClassVar

__all__ = ["Fact", "QuorateError", "copy_of"]

#: What an error may carry: ids, offsets, names
Fact = str | int | None


class QuorateError(Exception):
    """The root of the tree. ``facts`` are the ids needed to act, under stable keys."""

    code: ClassVar[str] = "QUORATE_ERROR"
    retriable: ClassVar[bool] = False
    refresh_metadata: ClassVar[bool] = False
    outcome_unknown: ClassVar[bool] = False
    grpc_status: ClassVar[str] = "UNKNOWN"

    def __init__(self, message: str, **facts: Fact) -> None:
        super().__init__(message)
        self.message = message
        self.facts: dict[str, Fact] = facts

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (type(self), self.message, self.facts))


def copy_of(error: QuorateError) -> QuorateError:
    """For an error that is kept: raising one and the same again and again would pile up its traceback."""
    return type(error)(error.message, **error.facts)


def _rebuild(kind: type[QuorateError], message: str, facts: dict[str, Fact]) -> QuorateError:
    return kind(message, **facts)
