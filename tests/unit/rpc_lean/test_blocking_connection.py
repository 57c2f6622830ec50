"""Calls of a thread that has no event loop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from google.protobuf.wrappers_pb2 import BytesValue

from quorate.core.transport import Method
from quorate.errors import OffsetOutOfRange, QuorateError, RequestTimedOut, Unavailable
from quorate.rpc.lean.blocking_connection import BlockingConnection
from quorate.rpc.lean.frames import (
    ErrorCode,
    FrameType,
    goaway_frame,
    settings_frame,
    window_update_frame,
)
from tests.unit.rpc_lean.peers import frame, served
from tests.unit.seams.echo_service import ECHO, FAIL, WAIT, text

AMPLE_S = 30.0


def by() -> float:
    """A deadline that is far off."""
    return time.monotonic() + AMPLE_S


def asked(connection: BlockingConnection, method: Method[Any, Any], request: Any) -> Any:
    call = connection.begin(method, request.SerializeToString(), deadline=by())
    return connection.end(call, method, deadline=by())


def echoed(connection: BlockingConnection, content: bytes) -> bytes:
    answer: bytes = asked(connection, ECHO, BytesValue(value=content)).value
    return answer


async def test_a_connection_is_used_for_call_after_call() -> None:
    def work(address: str) -> list[bytes]:
        connection = BlockingConnection(address, deadline=by())
        found = [echoed(connection, b"%d" % n) for n in range(100)]
        connection.close()
        return found

    async with served() as (echo, _, address):
        assert await asyncio.to_thread(work, address) == [b"%d" % n for n in range(100)]
        assert len(set(echo.peers)) == 1


async def test_calls_that_are_begun_together_are_answered_in_any_order() -> None:
    def work(address: str) -> list[bytes]:
        connection = BlockingConnection(address, deadline=by())
        contents = [BytesValue(value=b"%d" % n).SerializeToString() for n in range(9)]
        deadline = by()
        calls = [connection.begin(ECHO, content, deadline=deadline) for content in contents]
        return [connection.end(call, ECHO, deadline=deadline).value for call in reversed(calls)]

    async with served() as (_, _, address):
        assert await asyncio.to_thread(work, address) == [b"%d" % n for n in reversed(range(9))]


async def test_messages_that_are_larger_than_frames_and_windows_pass() -> None:
    content = bytes(range(256)) * 4_000

    def work(address: str) -> bool:
        connection = BlockingConnection(address, deadline=by())
        return all(echoed(connection, content) == content for _ in range(3))

    async with served() as (_, _, address):
        assert await asyncio.to_thread(work, address)


async def test_requests_that_are_larger_than_all_that_may_wait_to_be_written_pass() -> None:
    contents = [bytes([number]) * size for number, size in enumerate((3_000_000, 1_500_000, 10))]

    def work(address: str) -> bool:
        connection = BlockingConnection(address, deadline=by())
        messages = [BytesValue(value=content).SerializeToString() for content in contents]
        calls = [connection.begin(ECHO, message, deadline=by()) for message in messages]
        answers = [connection.end(call, ECHO, deadline=by()).value for call in calls]
        return answers == contents

    async with served() as (_, _, address):
        assert await asyncio.to_thread(work, address)


async def test_request_that_a_server_takes_no_more_of_is_given_up_in_time() -> None:
    def work(address: str) -> None:
        connection = BlockingConnection(address, deadline=by())
        deadline = time.monotonic() + 0.2
        call = connection.begin(ECHO, bytes(30_000_000), deadline=deadline)
        with pytest.raises(QuorateError):
            connection.end(call, ECHO, deadline=deadline)

    windows = settings_frame([(4, (1 << 31) - 1)]) + window_update_frame(0, 1 << 30)
    async with scripted(windows, reads=False) as address:
        await asyncio.to_thread(work, address)


async def test_an_error_of_the_handler_is_raised_as_it_is_and_the_connection_is_closed() -> None:
    def work(address: str) -> BlockingConnection:
        connection = BlockingConnection(address, deadline=by())
        with pytest.raises(OffsetOutOfRange):
            asked(connection, FAIL, text("OFFSET_OUT_OF_RANGE"))
        return connection

    async with served() as (_, _, address):
        connection = await asyncio.to_thread(work, address)
        with pytest.raises(Unavailable, match="broke"):
            connection.begin(ECHO, b"", deadline=by())


async def test_an_answer_that_does_not_come_in_time_is_not_waited_for() -> None:
    def work(address: str) -> None:
        connection = BlockingConnection(address, deadline=by())
        # Or the server may not have taken the connection when it is stopped, and nobody would close it.
        assert echoed(connection, b"x") == b"x"
        call = connection.begin(WAIT, text("").SerializeToString(), deadline=by())
        with pytest.raises(RequestTimedOut, match="did not answer in time"):
            connection.end(call, WAIT, deadline=time.monotonic())

    async with served() as (_, _, address):
        await asyncio.to_thread(work, address)


async def test_nobody_at_the_address_is_said() -> None:
    async with served() as (_, _, address):
        pass
    with pytest.raises(Unavailable, match=f"cannot connect to {address}"):
        BlockingConnection(address, deadline=by())


async def test_a_server_that_has_hung_up_while_nobody_asked_is_noticed() -> None:
    async with served() as (_, _, address):
        connection = BlockingConnection(address, deadline=by())
        assert await asyncio.to_thread(echoed, connection, b"x") == b"x"
    with pytest.raises(Unavailable):
        echoed(connection, b"y")


@asynccontextmanager
async def scripted(content: bytes, *, reads: bool = True) -> AsyncIterator[str]:
    """A server that says this on every connection, and hangs up when the client does, or is at its end."""
    is_over = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(content)
        if not reads:
            await is_over.wait()
        while reads and await reader.read(1 << 16):
            pass
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        is_over.set()
        server.close()
        await server.wait_closed()


@pytest.mark.parametrize(
    "content",
    [
        settings_frame() + goaway_frame(0, ErrorCode.NO_ERROR, ""),
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        settings_frame() + frame(FrameType.RST_STREAM, b"\x00\x00\x00\x07", stream_id=1),
        settings_frame() + frame(FrameType.DATA, b"?", stream_id=1),
    ],
)
async def test_a_call_that_a_server_does_not_take_fails(content: bytes) -> None:
    def work(address: str) -> None:
        connection = BlockingConnection(address, deadline=by())
        with pytest.raises(QuorateError):
            echoed(connection, b"x")

    async with scripted(content) as address:
        await asyncio.to_thread(work, address)
