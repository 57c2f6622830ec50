"""How large the messages of each method are, for whoever measures them.

Only a transport knows: to ask a parsed message for its size is to write it down once more.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple, Protocol

from quorate.core.transport import Method

__all__ = ["NO_TRAFFIC", "UNMEASURED", "MethodTraffic", "Traffic"]


class MethodTraffic(NamedTuple):
    """To be told the bytes of each message of one method, as it comes and as it goes; without framing."""

    received: Callable[[int], None]
    sent: Callable[[int], None]


class Traffic(Protocol):
    def of(self, method: Method[Any, Any]) -> MethodTraffic:
        """Asked once for each method that a server offers."""
        ...


def _forget(_: int) -> None:
    pass


UNMEASURED: Final = MethodTraffic(_forget, _forget)


class _NoTraffic:
    def of(self, _: Method[Any, Any]) -> MethodTraffic:
        return UNMEASURED


NO_TRAFFIC: Final[Traffic] = _NoTraffic()
