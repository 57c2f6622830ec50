"""A small service for transport tests, declared in code; and the same once more, for calls between nodes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator

from google.protobuf import descriptor_pb2, descriptor_pool, wrappers_pb2
from google.protobuf.wrappers_pb2 import BytesValue, StringValue

from quorate.core.transport import Call, Handler, Service, UnaryHandler, method_of
from quorate.errors import ERRORS_BY_CODE, OffsetOutOfRange

__all__ = [
    "CHAT",
    "COUNT",
    "ECHO",
    "ENDLESS",
    "FAIL",
    "NODE_ECHO",
    "NODE_ENDLESS",
    "NODE_WAIT",
    "POLL",
    "WAIT",
    "EchoServer",
    "one",
    "text",
]


def _declare() -> descriptor_pb2.FileDescriptorProto:
    file = descriptor_pb2.FileDescriptorProto(
        name="quorate/test/echo.proto",
        package="quorate.test",
        syntax="proto3",
        dependency=[wrappers_pb2.DESCRIPTOR.name],
    )
    for service in (file.service.add(name="EchoService"), file.service.add(name="NodeEchoService")):
        for name in ("Echo", "Fail", "Wait", "Poll", "Chat", "Count", "Endless"):
            message = ".google.protobuf.BytesValue" if name == "Echo" else ".google.protobuf.StringValue"
            service.method.add(
                name=name,
                input_type=message,
                output_type=message,
                client_streaming=name == "Chat",
                server_streaming=name in ("Chat", "Count", "Endless"),
            )
    return file


_pool = descriptor_pool.Default()
_pool.Add(_declare())
DESCRIPTOR = _pool.FindServiceByName("quorate.test.EchoService")
_NODE_DESCRIPTOR = _pool.FindServiceByName("quorate.test.NodeEchoService")

ECHO = method_of(DESCRIPTOR, "Echo", BytesValue, BytesValue)
FAIL = method_of(DESCRIPTOR, "Fail", StringValue, StringValue)
WAIT = method_of(DESCRIPTOR, "Wait", StringValue, StringValue)
POLL = method_of(DESCRIPTOR, "Poll", StringValue, StringValue)
CHAT = method_of(DESCRIPTOR, "Chat", StringValue, StringValue)
COUNT = method_of(DESCRIPTOR, "Count", StringValue, StringValue)
ENDLESS = method_of(DESCRIPTOR, "Endless", StringValue, StringValue)
NODE_ECHO = method_of(_NODE_DESCRIPTOR, "Echo", BytesValue, BytesValue)
NODE_WAIT = method_of(_NODE_DESCRIPTOR, "Wait", StringValue, StringValue)
NODE_ENDLESS = method_of(_NODE_DESCRIPTOR, "Endless", StringValue, StringValue)


def text(value: str) -> StringValue:
    return StringValue(value=value)


async def one(value: str) -> AsyncIterator[StringValue]:
    """A stream of a single request."""
    yield text(value)


class EchoServer:
    """The handlers, and what they saw."""

    def __init__(self, fail: UnaryHandler[StringValue, StringValue] | None = None) -> None:
        self.echoed: list[bytes] = []
        #: set once a Wait is being handled
        self.waiting = asyncio.Event()
        #: names of handlers that were cancelled or closed
        self.ended: asyncio.Queue[str] = asyncio.Queue()
        #: set once an Echo, or an Endless, was over for the transport as well
        self.over = asyncio.Event()
        self.remaining_s: list[float] = []
        self.peers: list[str] = []
        handlers: dict[str, Handler] = {
            "Echo": self.echo,
            "Fail": fail or self.fail,
            "Wait": self.wait,
            "Poll": self.wait,
            "Chat": self.chat,
            "Count": self.count,
            "Endless": self.endless,
        }
        self.service = Service(DESCRIPTOR, handlers, long_polls=("Poll",))
        self.node_service = Service(_NODE_DESCRIPTOR, handlers, is_internal=True)

    async def echo(self, request: BytesValue, call: Call) -> BytesValue:
        self.echoed.append(request.value)
        self.remaining_s.append(call.remaining_s())
        self.peers.append(call.peer)
        call.when_over(self.over.set)
        return BytesValue(value=request.value)

    async def fail(self, request: StringValue, call: Call) -> StringValue:
        """With the error of that code, or as no handler should."""
        if request.value in ERRORS_BY_CODE:
            raise ERRORS_BY_CODE[request.value]("told to fail", offset=5, topic="orders", leader=None)
        if request.value == "nothing":
            return None  # type: ignore[return-value]  # a handler's mistake
        if request.value == "timeout":
            raise TimeoutError("the handler's own")
        raise ZeroDivisionError("secret of the server")

    async def wait(self, request: StringValue, call: Call) -> StringValue:
        self.waiting.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.ended.put_nowait("wait")
        return StringValue()

    async def chat(
        self, requests: AsyncIterable[StringValue], call: Call
    ) -> AsyncGenerator[StringValue, None]:
        async for request in requests:
            if request.value == "fail":
                raise OffsetOutOfRange("no such offset", log_end_offset=9)
            if request.value == "crash":
                raise ZeroDivisionError("secret of the server")
            yield text(f"re: {request.value}")
        yield text("bye")

    async def count(
        self, requests: AsyncIterable[StringValue], call: Call
    ) -> AsyncGenerator[StringValue, None]:
        async for request in requests:
            for number in range(int(request.value)):
                yield text(str(number))

    async def endless(
        self, requests: AsyncIterable[StringValue], call: Call
    ) -> AsyncGenerator[StringValue, None]:
        self.remaining_s.append(call.remaining_s())
        call.when_over(self.over.set)
        try:
            yield text("first")
            self.waiting.set()
            await asyncio.Event().wait()
        finally:
            self.ended.put_nowait("endless")
