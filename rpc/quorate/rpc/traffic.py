"""What only a transport knows of each method, for whoever measures: how large messages are, and refusals.

To ask a parsed message for its size is to write it down once more; and of a request that is refused before a
handler has it, nobody else hears.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple, Protocol

from quorate.core.transport import Method

__all__ = ["NO_TRAFFIC", "UNMEASURED", "MethodTraffic", "Traffic"]


class MethodTraffic(NamedTuple):
    """Of one method."""

    #: to be told the bytes of each message, as it comes and as it goes; without framing
    received: Callable[[int], None]
    sent: Callable[[int], None]
    #: to be told the code of the error with which a request was refused before a handler had it
    refused: Callable[[str], None]


class Traffic(Protocol):
    def of(self, method: Method[Any, Any]) -> MethodTraffic:
        """Asked once for each method that a server offers."""
        ...


def _forget(_: object) -> None:
    pass


UNMEASURED: Final = MethodTraffic(_forget, _forget, _forget)


class _NoTraffic:
    def of(self, _: Method[Any, Any]) -> MethodTraffic:
        return UNMEASURED


NO_TRAFFIC: Final[Traffic] = _NoTraffic()
