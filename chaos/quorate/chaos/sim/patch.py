"""Attributes that are replaced, and put back: how a mutation reaches code that knows nothing of it."""

from __future__ import annotations

from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, Final

__all__ = ["Patch"]

_ABSENT: Final = object()


class Patch(AbstractContextManager["Patch"]):
    """Everything is as it was when the block ends, in the opposite order of the changes."""

    def __init__(self) -> None:
        self._replaced: list[tuple[Any, str, Any]] = []

    def setattr(self, owner: Any, name: str, value: Any) -> None:
        """``owner``: a class, a module or an object.

        The name has to exist: who mutates what is gone mutates nothing.
        """
        if not hasattr(owner, name):
            raise AttributeError(f"{owner!r} has no {name!r}: the mutation has to follow the code")
        self._replaced.append((owner, name, _held_by(owner, name)))
        setattr(owner, name, value)

    @property
    def owners(self) -> list[Any]:
        """Of what is replaced now, in the order of the changes."""
        return [owner for owner, _, _ in self._replaced]

    def undo(self) -> None:
        while self._replaced:
            owner, name, value = self._replaced.pop()
            if value is _ABSENT:
                delattr(owner, name)
            else:
                setattr(owner, name, value)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.undo()


def _held_by(owner: Any, name: str) -> Any:
    """What a class itself holds, not what it inherits or what a descriptor makes of it."""
    return vars(owner).get(name, _ABSENT) if isinstance(owner, type) else getattr(owner, name)
