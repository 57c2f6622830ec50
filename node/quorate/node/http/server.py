"""Listens for HTTP, and keeps the number of connections within a bound.

It shares the node's loop, so what it does has to be little. At the bound the connection goes that has waited
longest without having asked for anything: a probe must get through to a node, whoever else holds connections
to it open. Where all are being answered the new one is told to come again.
"""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import Self

from quorate.core.config import HostPort
from quorate.core.logging import get_logger
from quorate.errors import CannotListen
from quorate.node.http.conversation import Answer, HttpLimits, converse, refuse
from quorate.node.http.messages import text

__all__ = ["HttpServer"]

log = get_logger(__name__)


class _Open:
    """One connection."""

    __slots__ = ("is_asked", "task", "writer")

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self.writer = writer
        self.is_asked = False
        self.task: asyncio.Task[None] | None = None

    def asked(self) -> None:
        self.is_asked = True


class HttpServer:
    def __init__(self, answer: Answer, limits: HttpLimits) -> None:
        """For ``start``."""
        self._answer = answer
        self._limits = limits
        self._server: asyncio.Server | None = None
        #: those that count for the bound, the oldest first
        self._open: dict[_Open, None] = {}
        #: of all of them, also of those that are on their way out
        self._tasks: set[asyncio.Task[None]] = set()

    @classmethod
    async def start(cls, address: HostPort, answer: Answer, limits: HttpLimits | None = None) -> Self:
        server = cls(answer, limits or HttpLimits())
        try:
            server._server = await asyncio.start_server(server._connected, address.host, address.port)
        except OSError as error:
            reason = error.strerror or str(error)
            raise CannotListen(f"cannot listen on {address}: {reason}", address=str(address)) from error
        return server

    @property
    def address(self) -> str:
        """With the real port."""
        assert self._server is not None
        host, port, *_ = self._server.sockets[0].getsockname()
        return str(HostPort(host, port))

    async def close(self) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        await self._server.wait_closed()

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not self._make_room():
            refuse(writer, text(HTTPStatus.SERVICE_UNAVAILABLE, "too many connections; come again"))
            return
        opened = _Open(writer)
        opened.task = asyncio.create_task(self._serve(opened, reader), name="http")
        self._open[opened] = None
        self._tasks.add(opened.task)
        # A task that is cancelled before its first step runs nothing of its own, not even a finally.
        opened.task.add_done_callback(lambda task: self._ended(opened, task))

    def _make_room(self) -> bool:
        if len(self._open) < self._limits.connections_max:
            return True
        silent = next((each for each in self._open if not each.is_asked), None)
        if silent is None:
            return False
        del self._open[silent]
        assert silent.task is not None
        silent.task.cancel()
        return True

    async def _serve(self, opened: _Open, reader: asyncio.StreamReader) -> None:
        try:
            await converse(reader, opened.writer, self._answer, limits=self._limits, on_asked=opened.asked)
        except (TimeoutError, OSError) as error:
            log.debug("http_connection_lost", reason=str(error) or "too slow")

    def _ended(self, opened: _Open, task: asyncio.Task[None]) -> None:
        self._open.pop(opened, None)
        self._tasks.discard(task)
        # Not close, which waits for whoever does not read.
        opened.writer.transport.abort()
        if not task.cancelled() and task.exception() is not None:
            log.error("http_connection_failed", exc_info=task.exception())
