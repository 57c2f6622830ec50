"""A transport without a network: a call is a call of the handler, on the loop of whoever asks."""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Sequence
from typing import Any

import pytest

from quorate.console import connecting
from quorate.core.transport import Channel, Method, Server, Service

__all__ = ["DirectTransport"]


class DirectTransport:
    """Every address is the same node."""

    address = "node:1"
    peer = "console"

    def __init__(self, *services: Service) -> None:
        self._handlers: dict[str, Any] = {
            method.path: handler for each in services for method, handler in each.handlers.items()
        }

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(connecting, "client_transport", lambda: self)

    def connect(self, _address: str) -> Channel:
        return self

    async def call(self, method: Method[Any, Any], request: Any, *, timeout_s: float) -> Any:
        return await self._handlers[method.path](request, self)

    def stream(
        self, method: Method[Any, Any], requests: AsyncIterable[Any], *, timeout_s: float | None
    ) -> AsyncGenerator[Any, None]:
        handled: AsyncGenerator[Any, None] = self._handlers[method.path](aiter(requests), self)
        return handled

    def remaining_s(self) -> float:
        return math.inf

    def when_over(self, callback: Callable[[], None]) -> None:
        callback()

    async def close(self) -> None:
        pass

    async def serve(self, address: str, services: Sequence[Service], *, serving: bool = True) -> Server:
        raise AssertionError("nobody serves")

    async def is_refused(self, address: str, *, timeout_s: float) -> bool:
        raise AssertionError("nobody asks")
