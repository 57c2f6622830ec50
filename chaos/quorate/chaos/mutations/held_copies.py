"""Copies of requests, held up on their way, to be delivered when things are different."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from quorate.chaos.cluster.cluster import SimCluster

__all__ = ["HeldCopies"]

_QUIET_S: Final = 1.0


class HeldCopies:
    """Of the requests that clients send meanwhile, to be delivered later."""

    def __init__(self, cluster: SimCluster) -> None:
        self._cluster = cluster
        self._held: list[Callable[[], None]] = []

    @contextmanager
    def of(self, method: str) -> Iterator[None]:
        network: Any = self._cluster.network
        original = network.repeat

        def repeat(source: str, target: str, send: Any) -> bool:
            if send.args[3].method.name == method:
                self._held.append(send)
            return bool(original(source, target, send))

        network.repeat = repeat
        try:
            yield
        finally:
            network.repeat = original

    async def deliver(self) -> None:
        assert self._held, "nothing was sent"
        for send in self._held:
            send()
        await self._cluster.clock.sleep(_QUIET_S)
