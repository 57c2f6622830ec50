"""Nodes that answer by a script, for tests of who is asked, and how often."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from quorate.core.transport import Channel, Method, Server, Service
from quorate.errors import NoController, NotController, QuorateError, RequestTimedOut, Unavailable
from quorate.v1 import admin_pb2

#: what an address does with a call
Behaviour = Callable[[Any], Any]


class ScriptedChannel:
    def __init__(self, transport: ScriptedTransport, address: str) -> None:
        self.address = address
        self._transport = transport

    async def call(self, method: Method[Any, Any], request: Any, *, timeout_s: float) -> Any:
        self._transport.asked.append((self.address, method.name))
        self._transport.requests.append(request)
        answer = self._transport.behaviour[self.address](request)
        if answer is None:
            await asyncio.sleep(timeout_s)
            raise RequestTimedOut("no answer")
        if isinstance(answer, QuorateError):
            raise answer
        return answer

    def stream(self, *_: Any, **__: Any) -> Any:
        raise AssertionError("nobody streams")

    async def close(self) -> None:
        self._transport.closed.append(self.address)


class ScriptedTransport:
    """Each address answers what its behaviour returns; an error is raised, None is silence."""

    def __init__(self, **behaviour: Behaviour) -> None:
        self.behaviour = {f"{name}:1": each for name, each in behaviour.items()}
        self.asked: list[tuple[str, str]] = []
        self.requests: list[Any] = []
        self.closed: list[str] = []

    def connect(self, address: str) -> Channel:
        return ScriptedChannel(self, address)

    async def serve(self, address: str, services: Sequence[Service], *, serving: bool = True) -> Server:
        raise AssertionError("nobody serves")

    async def is_refused(self, address: str, *, timeout_s: float) -> bool:
        raise AssertionError("nobody asks")

    @property
    def addresses_asked(self) -> str:
        return "".join(address[0] for address, _ in self.asked)


def dead(_request: Any) -> Any:
    return Unavailable("refused")


def silent(_request: Any) -> Any:
    return None


def leaderless(_request: Any) -> Any:
    return NoController("nobody leads")


def led_by_another(_request: Any) -> Any:
    return NotController("this node is not the active controller, and knows of none")


def describes(_request: Any) -> Any:
    return admin_pb2.DescribeClusterResponse(controller=7)


def first(count: int, trouble: Behaviour, then: Behaviour) -> Behaviour:
    calls = iter([trouble] * count)
    return lambda request: next(calls, then)(request)
