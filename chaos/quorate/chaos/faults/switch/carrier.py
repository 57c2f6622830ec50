"""What carries between the ends, as the switch process drives it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

__all__ = ["Carrier", "Place"]


@dataclass(frozen=True, slots=True)
class Place:
    """Where a node is once it was admitted, and how it is started there."""

    address: str
    listener: str | None
    launcher: tuple[str, ...]


class Carrier(Protocol):
    async def open(self) -> None:
        """``OSError``: this machine does not let us."""

    async def admit(self, name: str, address: str, cluster_directory: str) -> Place:
        """A node that is laid out to listen on ``address`` and was not started there."""

    async def heal(self) -> None:
        """The links are sound again: let go on what waits."""

    async def close(self) -> None: ...
