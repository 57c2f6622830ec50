"""One connection: a request, an answer, and its end.

There is one request for each connection, which ``Connection: close`` tells. Whoever asks does so every few
seconds, and a connection costs nothing then; kept open, it would have to be bounded in number and in time.

Nothing here waits for ever. A request has to be there after a while, its headers may have so many bytes, and
an answer has to be taken after a while; it is handed to the connection a piece at a time, so a slow reader
holds one piece and not all of it. What cannot be understood is answered with the reason and a status of the
400s, by the same path as everything else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final
from urllib.parse import urlsplit

import h11

from quorate.core.logging import get_logger
from quorate.node.http.messages import Request, Response, text

__all__ = ["Answer", "HttpLimits", "converse", "refuse"]

log = get_logger(__name__)

Answer = Callable[[Request], Awaitable[Response]]

_ALLOWED: Final = "GET, HEAD"
_READ_BYTES: Final = 1 << 12
_WRITE_BYTES: Final = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpLimits:
    #: of a request's first line and headers together
    header_bytes_max: int = 1 << 14
    #: from when it is connected until its request is there
    request_s: float = 5.0
    #: from then until the answer is taken; making the largest one takes a few seconds of it
    answer_s: float = 30.0
    #: from then until the other side has closed, too
    farewell_s: float = 1.0
    connections_max: int = 64


async def converse(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    answer: Answer,
    *,
    limits: HttpLimits,
    on_asked: Callable[[], None],
) -> None:
    """``on_asked``: the request is there. Raises TimeoutError and OSError: nobody is there to be told."""
    # Else a write would count as done with a piece of the answer still in memory, and be thrown away with it.
    writer.transport.set_write_buffer_limits(high=0)
    connection = h11.Connection(h11.SERVER, max_incomplete_event_size=limits.header_bytes_max)
    asked = await _read_request(connection, reader, limits)
    if asked is None:
        return
    on_asked()
    async with asyncio.timeout(limits.answer_s):
        response = await _answer(answer, asked) if isinstance(asked, Request) else asked
        is_head = isinstance(asked, Request) and asked.is_head
        await _write(connection, writer, response, is_head=is_head)
    await _say_farewell(reader, writer, limits)


def refuse(writer: asyncio.StreamWriter, response: Response) -> None:
    """Without waiting for what is asked, nor for anybody to take the answer, which has to be short."""
    connection = h11.Connection(h11.SERVER)
    writer.write(_head(connection, response))
    writer.write(connection.send(h11.Data(data=response.body)) or b"")
    writer.close()


async def _read_request(
    connection: h11.Connection, reader: asyncio.StreamReader, limits: HttpLimits
) -> Request | Response | None:
    """A response: the request was none, and that is what to say. None: there was nothing."""
    try:
        async with asyncio.timeout(limits.request_s):
            while True:
                event = connection.next_event()
                if isinstance(event, h11.Request):
                    return _understood(event)
                if event is not h11.NEED_DATA:
                    return None
                connection.receive_data(await reader.read(_READ_BYTES))
    except TimeoutError:
        return text(HTTPStatus.REQUEST_TIMEOUT, f"no request within {limits.request_s:g} s")
    except h11.RemoteProtocolError as error:
        return text(HTTPStatus(error.error_status_hint), f"this is no request: {error}")


def _understood(request: h11.Request) -> Request | Response:
    if request.method not in (b"GET", b"HEAD"):
        return text(HTTPStatus.METHOD_NOT_ALLOWED, f"{_ALLOWED} are the methods that there are")
    target = request.target.decode("ascii")
    try:
        path = urlsplit(target).path
    except ValueError:
        # Not a place that there is, in any case.
        path = target
    headers: dict[str, str] = {}
    for raw_name, raw_value in request.headers:
        name, value = raw_name.decode("ascii"), raw_value.decode("latin-1")
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return Request(request.method == b"HEAD", path, headers)


async def _answer(answer: Answer, request: Request) -> Response:
    try:
        return await answer(request)
    except Exception:
        log.exception("http_request_failed", path=request.path)
        return text(HTTPStatus.INTERNAL_SERVER_ERROR, "something is wrong with the node; its log says what")


async def _write(
    connection: h11.Connection, writer: asyncio.StreamWriter, response: Response, *, is_head: bool
) -> None:
    writer.write(_head(connection, response))
    for start in range(0, 0 if is_head else len(response.body), _WRITE_BYTES):
        piece = response.body[start : start + _WRITE_BYTES]
        writer.write(connection.send(h11.Data(data=piece)) or b"")
        await writer.drain()
    writer.write(connection.send(h11.EndOfMessage()) or b"")
    await writer.drain()


def _head(connection: h11.Connection, response: Response) -> bytes:
    headers = [
        ("Content-Type", response.content_type),
        ("Content-Length", str(len(response.body))),
        # The numbers of a moment, and whether a node is well: nobody may answer that from memory.
        ("Cache-Control", "no-store"),
        ("Connection", "close"),
    ]
    if response.status is HTTPStatus.METHOD_NOT_ALLOWED:
        headers.append(("Allow", _ALLOWED))
    status = response.status
    head = h11.Response(status_code=status.value, reason=status.phrase, headers=headers)
    return connection.send(head) or b""


async def _say_farewell(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, limits: HttpLimits
) -> None:
    """What still comes is taken: unread, it would make the system reset the connection, and the answer."""
    writer.write_eof()
    with suppress(TimeoutError):
        async with asyncio.timeout(limits.farewell_s):
            while await reader.read(_READ_BYTES):
                pass
