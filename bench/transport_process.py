"""One process of `bench.transport`: a server that acknowledges, or a client that sends to it.

Usage: python -m bench.transport_process server KIND | client KIND ADDRESS LOAD BYTES SECONDS

KIND is a value of rpc.transport, or `tls=DIRECTORY`: lean, encrypted with key.pem and certificate.pem there.
A client prints how many calls it made a second, and how long they took.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import sys
import time
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from typing import Final

import uvloop
from google.protobuf import descriptor_pb2, descriptor_pool, wrappers_pb2
from google.protobuf.wrappers_pb2 import BytesValue

from quorate.core.config import RpcTransport
from quorate.core.transport import Call, Channel, Service, Transport, method_of
from quorate.rpc.choice import client_transport_of
from quorate.rpc.lean.transport import LeanOptions, LeanTransport

#: calls, or messages of a stream, that are on their way at once
IN_FLIGHT: Final = 32
_MESSAGE_BYTES_MAX: Final = 64 << 20
_AMPLE_S: Final = 60.0
_WARM_UP_S: Final = 0.3
_ACKNOWLEDGED: Final = BytesValue(value=b"acknowledged")


def _declare() -> descriptor_pb2.FileDescriptorProto:
    file = descriptor_pb2.FileDescriptorProto(
        name="bench/transport.proto", package="bench", dependency=[wrappers_pb2.DESCRIPTOR.name]
    )
    service = file.service.add(name="Sink")
    message = ".google.protobuf.BytesValue"
    service.method.add(name="Take", input_type=message, output_type=message)
    service.method.add(
        name="TakeAll", input_type=message, output_type=message, client_streaming=True, server_streaming=True
    )
    return file


_pool = descriptor_pool.Default()
_pool.Add(_declare())
_SINK: Final = _pool.FindServiceByName("bench.Sink")
_TAKE: Final = method_of(_SINK, "Take", BytesValue, BytesValue)
_TAKE_ALL: Final = method_of(_SINK, "TakeAll", BytesValue, BytesValue)


async def _take(_request: BytesValue, _call: Call) -> BytesValue:
    return _ACKNOWLEDGED


async def _take_all(requests: AsyncIterator[BytesValue], _call: Call) -> AsyncGenerator[BytesValue, None]:
    async for _ in requests:
        yield _ACKNOWLEDGED


async def _serve(transport: Transport) -> None:
    service = Service(_SINK, {"Take": _take, "TakeAll": _take_all})
    server = await transport.serve("127.0.0.1:0", [service])
    print(server.address, flush=True)
    await asyncio.Event().wait()


class _Meter:
    """Counts what is acknowledged after the warm-up and before the end."""

    def __init__(self, seconds: float) -> None:
        self._begin = time.perf_counter() + _WARM_UP_S
        self.end = self._begin + seconds
        self.taken_s: list[float] = []
        #: with those of the warm-up
        self.messages = 0

    @property
    def is_over(self) -> bool:
        return time.perf_counter() >= self.end

    def acknowledged(self, since: float) -> None:
        now = time.perf_counter()
        self.messages += 1
        if self._begin <= now < self.end:
            self.taken_s.append(now - since)


async def _send_calls(channel: Channel, meter: _Meter, size: int, at_once: int) -> None:
    request = BytesValue(value=bytes(size))

    async def one_after_the_other() -> None:
        while not meter.is_over:
            since = time.perf_counter()
            await channel.call(_TAKE, request, timeout_s=_AMPLE_S)
            meter.acknowledged(since)

    await asyncio.gather(*(one_after_the_other() for _ in range(at_once)))


async def _send_stream(channel: Channel, meter: _Meter, size: int) -> None:
    request = BytesValue(value=bytes(size))
    room = asyncio.Semaphore(IN_FLIGHT)
    sent: deque[float] = deque()

    async def requests() -> AsyncIterator[BytesValue]:
        while not meter.is_over:
            await room.acquire()
            sent.append(time.perf_counter())
            yield request

    async for _ in channel.stream(_TAKE_ALL, requests(), timeout_s=None):
        meter.acknowledged(sent.popleft())
        room.release()


_LOADS: Final[dict[str, Callable[[Channel, _Meter, int], Awaitable[None]]]] = {
    "alone": lambda channel, meter, size: _send_calls(channel, meter, size, 1),
    "calls": lambda channel, meter, size: _send_calls(channel, meter, size, IN_FLIGHT),
    "stream": _send_stream,
}


async def _send(transport: Transport, address: str, load: str, size: int, seconds: float) -> None:
    channel = transport.connect(address)
    await channel.call(_TAKE, BytesValue(), timeout_s=_AMPLE_S)
    meter = _Meter(seconds)
    cpu_before_s = time.process_time()
    await _LOADS[load](channel, meter, size)
    cpu_s = time.process_time() - cpu_before_s
    await channel.close()
    taken_s = sorted(meter.taken_s)
    told = {
        "per_s": len(taken_s) / seconds,
        "p50_ms": taken_s[len(taken_s) // 2] * 1e3,
        "p99_ms": taken_s[len(taken_s) * 99 // 100] * 1e3,
        "messages": meter.messages,
        "cpu_s": cpu_s,
    }
    print(json.dumps(told))


def _transport(kind: str) -> Transport:
    if not kind.startswith("tls="):
        return client_transport_of(RpcTransport(kind), message_bytes_max=_MESSAGE_BYTES_MAX)
    directory = kind.removeprefix("tls=")
    server_tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server_tls.load_cert_chain(f"{directory}/certificate.pem", f"{directory}/key.pem")
    client_tls = ssl.create_default_context(cafile=f"{directory}/certificate.pem")
    return LeanTransport(
        LeanOptions(message_bytes_max=_MESSAGE_BYTES_MAX, server_tls=server_tls, client_tls=client_tls)
    )


def main(role: str, kind: str, *arguments: str) -> None:
    uvloop.install()
    transport = _transport(kind)
    if role == "server":
        asyncio.run(_serve(transport))
    else:
        address, load, size, seconds = arguments
        asyncio.run(_send(transport, address, load, int(size), float(seconds)))


if __name__ == "__main__":
    main(*sys.argv[1:])
