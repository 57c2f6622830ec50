"""The HTTP server: what it answers, what it refuses, and that nobody can hold it up."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from http import HTTPStatus
from http.client import HTTPResponse
from io import BytesIO
from typing import Any

import pytest

from quorate.core.config import HostPort
from quorate.errors import CannotListen
from quorate.node.http import server as server_module
from quorate.node.http.conversation import HttpLimits
from quorate.node.http.messages import Request, Response, text
from quorate.node.http.server import HttpServer

LOOPBACK = HostPort("127.0.0.1", 0)
#: far more than the system keeps for a connection whose other side does not read
LARGE = b"x" * (32 << 20)
#: one piece of what is written
SMALL = b"y" * 60_000


@pytest.fixture(autouse=True)
def mistakes(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Whatever clients do, it is not our mistake."""
    made: list[Any] = []
    monkeypatch.setattr(server_module.log, "error", lambda event, **facts: made.append((event, facts)))
    yield
    assert made == []


async def answer(request: Request) -> Response:
    match request.path:
        case "/large":
            return Response(HTTPStatus.OK, LARGE)
        case "/small":
            return Response(HTTPStatus.OK, SMALL)
        case "/broken":
            raise ZeroDivisionError
        case "/headers":
            return text(HTTPStatus.OK, *(f"{name}={value}" for name, value in request.headers.items()))
    return text(HTTPStatus.OK, request.path)


@asynccontextmanager
async def serving(
    handler: Callable[[Request], Any] = answer, **limits: Any
) -> AsyncIterator[tuple[HttpServer, int]]:
    server = await HttpServer.start(LOOPBACK, handler, HttpLimits(**limits))
    try:
        yield server, int(server.address.rpartition(":")[2])
    finally:
        await server.close()


class Client:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def send(self, request: bytes) -> None:
        self._writer.write(request)
        await self._writer.drain()

    async def rest(self) -> bytes:
        """Until the other side closes, or the connection is gone."""
        with contextlib.suppress(ConnectionError):
            return await self._reader.read()
        return b""

    async def close(self) -> None:
        self._writer.close()
        with contextlib.suppress(ConnectionError):
            await self._writer.wait_closed()


@asynccontextmanager
async def connected(port: int) -> AsyncIterator[Client]:
    client = Client(*await asyncio.open_connection("127.0.0.1", port))
    try:
        yield client
    finally:
        await client.close()


async def ask(port: int, request: bytes) -> HTTPResponse:
    """``request``: everything that is sent; the answer is read to its end."""
    async with connected(port) as client:
        await client.send(request)
        return parsed(await client.rest(), method=request.partition(b" ")[0].decode(errors="replace"))


def parsed(answered: bytes, *, method: str = "GET") -> HTTPResponse:
    class Bytes:
        def makefile(self, *_: Any) -> BytesIO:
            return BytesIO(answered)

    response = HTTPResponse(Bytes(), method=method)  # type: ignore[arg-type]
    response.begin()
    return response


def get(path: str, *headers: str, method: str = "GET") -> bytes:
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost", *headers, "", ""]
    return "\r\n".join(lines).encode()


# -- what is answered


async def test_request_is_answered_and_the_connection_ends() -> None:
    async with serving() as (_, port):
        response = await ask(port, get("/livez"))
        assert response.status == 200
        assert response.read() == b"/livez\n"
        assert response.getheader("Connection") == "close"
        assert response.getheader("Content-Type") == "text/plain; charset=utf-8"
        assert response.getheader("Content-Length") == "7"


async def test_head_is_get_without_a_body() -> None:
    async with serving() as (_, port):
        response = await ask(port, get("/livez", method="HEAD"))
        assert (response.status, response.getheader("Content-Length")) == (200, "7")
        assert response.read() == b""


@pytest.mark.parametrize("target", ["/a?b=c", "http://localhost/a", "http://localhost/a?b"])
async def test_path_is_what_counts_of_a_target(target: str) -> None:
    async with serving() as (_, port):
        assert (await ask(port, get(target))).read() == b"/a\n"


async def test_headers_of_one_name_are_put_together() -> None:
    async with serving() as (_, port):
        response = await ask(port, get("/headers", "Accept: a", "ACCEPT: b;q=0.5"))
        assert b"accept=a, b;q=0.5\n" in response.read()


async def test_request_that_arrives_byte_by_byte_is_one() -> None:
    async with serving() as (_, port), connected(port) as client:
        for byte in get("/slow"):
            await client.send(bytes([byte]))
        assert parsed(await client.rest()).read() == b"/slow\n"


async def test_client_of_http_1_0_is_answered() -> None:
    async with serving() as (_, port):
        assert (await ask(port, b"GET /old HTTP/1.0\r\n\r\n")).read() == b"/old\n"


async def test_large_answer_arrives_whole() -> None:
    async with serving() as (_, port):
        assert (await ask(port, get("/large"))).read() == LARGE


# -- what is refused


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "CONNECT", "NONSENSE"])
async def test_other_methods_are_refused(method: str) -> None:
    async with serving() as (_, port):
        response = await ask(port, get("/metrics", method=method))
        assert response.status == 405
        assert response.getheader("Allow") == "GET, HEAD"


async def test_body_that_nobody_reads_does_not_cost_the_client_its_answer() -> None:
    """Data that lies unread when a connection is closed makes the system reset it."""
    async with serving() as (_, port), connected(port) as client:
        length = 1 << 20
        await client.send(get("/metrics", f"Content-Length: {length}", method="POST") + b"x" * length)
        assert parsed(await client.rest()).status == 405


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"nonsense\r\n\r\n",
        b"GET /\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",  # without Host
        b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        b"GET /\xff HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nbad header\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",  # somebody speaks TLS
    ],
)
async def test_what_is_no_request_is_refused_with_the_reason(request_bytes: bytes) -> None:
    async with serving() as (_, port):
        response = await ask(port, request_bytes)
        assert response.status == 400
        assert response.read().startswith(b"this is no request: ")


@pytest.mark.parametrize("target", ["//[", "*", "http://[::1/x"])
async def test_target_without_a_path_is_no_mistake_of_ours(target: str) -> None:
    async with serving() as (_, port):
        assert (await ask(port, get(target))).status == 200


async def test_headers_that_have_no_end_are_refused() -> None:
    async with serving() as (_, port):
        response = await ask(port, get("/", f"X: {'x' * 30_000}"))
        assert response.status == 431


async def test_http_2_without_being_asked_is_refused() -> None:
    async with serving() as (_, port):
        assert (await ask(port, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")).status == 405


async def test_mistake_of_ours_is_told_and_the_next_request_answered() -> None:
    async with serving() as (_, port):
        assert (await ask(port, get("/broken"))).status == 500
        assert (await ask(port, get("/livez"))).status == 200


async def test_address_that_is_taken_is_told() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        taken = HostPort(*other.getsockname())
        with pytest.raises(CannotListen, match=rf"cannot listen on {taken}: .*in use"):
            await HttpServer.start(taken, answer)


# -- nobody holds it up


async def test_client_that_asks_for_nothing_is_told_and_let_go() -> None:
    async with serving(request_s=0.05) as (_, port), connected(port) as client:
        await client.send(b"GET / HTT")
        assert parsed(await client.rest()).status == 408


async def test_client_that_connects_and_leaves_is_forgotten() -> None:
    async with serving() as (server, port):
        async with connected(port):
            pass
        assert (await ask(port, get("/livez"))).status == 200
        await all_gone(server)


async def all_gone(server: HttpServer) -> None:
    async with asyncio.timeout(30):
        while server._tasks:
            await asyncio.wait(list(server._tasks))


async def test_client_that_does_not_read_is_let_go() -> None:
    async with serving(answer_s=0.1) as (server, port), connected(port) as client:
        await client.send(get("/large"))
        await until_asked(server)
        await all_gone(server)
        assert len(await client.rest()) < len(LARGE)


async def until_asked(server: HttpServer, count: int = 1) -> None:
    """So many requests are being answered."""
    async with asyncio.timeout(30):
        while sum(each.is_asked for each in server._open) < count:  # noqa: ASYNC110  # nobody tells us
            await asyncio.sleep(0)


async def test_client_that_reads_late_gets_the_end_of_its_answer() -> None:
    async with serving(farewell_s=0.01) as (server, port):
        assert server._server is not None
        # So little that most of the answer stays in the process until somebody reads.
        server._server.sockets[0].setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4_096)
        with socket.socket() as slow:
            slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
            slow.connect(("127.0.0.1", port))
            slow.sendall(get("/small"))
            await until_asked(server)
            await asyncio.sleep(0.2)  # far longer than a farewell takes
            slow.setblocking(False)
            received = b""
            async with asyncio.timeout(30):
                while more := await asyncio.get_running_loop().sock_recv(slow, 1 << 16):
                    received += more
        assert parsed(received).read() == SMALL


async def test_client_that_does_not_close_is_let_go() -> None:
    async with serving(farewell_s=0.05) as (server, port), connected(port) as client:
        await client.send(get("/livez"))
        await until_asked(server)
        await all_gone(server)
        assert parsed(await client.rest()).status == 200


async def test_client_that_never_stops_sending_is_let_go() -> None:
    async with serving(farewell_s=0.05) as (server, port), connected(port) as client:
        await client.send(get("/livez"))
        with pytest.raises(ConnectionError):
            await asyncio.wait_for(send_for_ever(client), 30)
        await all_gone(server)


async def send_for_ever(client: Client) -> None:
    while True:
        await client.send(b"more" * 1_000)


async def test_at_the_bound_whoever_asks_for_nothing_makes_room_for_a_probe() -> None:
    async with (
        serving(connections_max=4, request_s=60.0) as (server, port),
        contextlib.AsyncExitStack() as idle,
    ):
        lurkers = [await idle.enter_async_context(connected(port)) for _ in range(10)]
        for _ in range(5):
            assert (await ask(port, get("/livez"))).status == 200
        assert len(server._open) <= 4
        assert await lurkers[0].rest() == b"", "the one that has waited longest"


async def test_connections_that_are_closed_before_they_began_leave_nothing() -> None:
    """Tasks that are cancelled before their first step run nothing of their own."""
    async with serving(connections_max=1, request_s=60.0) as (_, port):
        lurkers = [socket.create_connection(("127.0.0.1", port)) for _ in range(20)]
        # Nothing of the server has run since, so it finds them all at once.
        assert (await ask(port, get("/livez"))).status == 200
        for lurker in lurkers:
            with lurker:
                lurker.setblocking(False)
                async with asyncio.timeout(30):
                    with contextlib.suppress(ConnectionError):
                        assert await asyncio.get_running_loop().sock_recv(lurker, 1) == b""


async def test_where_all_are_being_answered_others_are_told_to_come_again() -> None:
    may_answer = asyncio.Event()

    async def slow(request: Request) -> Response:
        await may_answer.wait()
        return await answer(request)

    async with serving(slow, connections_max=2) as (server, port):
        asking = [asyncio.create_task(ask(port, get("/livez"))) for _ in range(2)]
        await until_asked(server, 2)
        assert (await ask(port, get("/livez"))).status == 503
        may_answer.set()
        assert [response.status for response in await asyncio.gather(*asking)] == [200, 200]
        await all_gone(server)
        assert (await ask(port, get("/livez"))).status == 200


async def test_close_ends_whoever_is_connected() -> None:
    async with serving(request_s=60.0) as (server, port), connected(port) as client:
        await client.send(get("/large"))
        await until_asked(server)
        await server.close()
        assert not server._tasks
        assert len(await client.rest()) < len(LARGE)
        with pytest.raises(ConnectionError):
            await asyncio.open_connection("127.0.0.1", port)
