"""What a node answers over plain HTTP: whether it lives, whether it is ready, and its metrics.

It listens from before the node starts until after it has stopped. A start may recover logs for minutes, and
whoever supervises the process must not take that for death; nor a stop, which moves leaders first.

*Alive* is a process that answers at all: a node runs on one loop, and so does this. What must end a process
ends it by itself. *Ready* is for whoever restarts nodes one after another, or sends clients to them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from http import HTTPStatus
from typing import Final, Self

from quorate.core.config import HostPort
from quorate.core.ids import BrokerId
from quorate.core.logging import get_logger
from quorate.core.metrics import MetricSource
from quorate.node.http.messages import Request, Response, text
from quorate.node.http.server import HttpServer
from quorate.node.metrics.exposition import Format
from quorate.node.metrics.meters import Meters, sources_of
from quorate.node.metrics.page import MetricsPage
from quorate.node.metrics.process import ProcessMetrics
from quorate.node.metrics.watch import watch
from quorate.node.node import Node

__all__ = ["Endpoint"]

log = get_logger(__name__)

_PATHS: Final = ("/metrics", "/livez", "/readyz")


class Endpoint:
    def __init__(self, meters: Meters | None = None) -> None:
        """For ``open``. ``meters``: what the process records; None: nothing."""
        self._node: Node | None = None
        self._meters = meters
        self._sources: Sequence[MetricSource] = (
            ProcessMetrics(),
            *(() if meters is None else meters.sources),
        )
        self._watching: asyncio.Task[None] | None = None
        self._page = MetricsPage(lambda: self._sources)
        self._server: HttpServer | None = None

    @classmethod
    async def open(cls, address: HostPort, meters: Meters | None = None) -> Self:
        endpoint = cls(meters)
        endpoint._server = await HttpServer.start(address, endpoint.answer)
        if meters is not None:
            meters.loop.start()
        log.info("metrics_listening", address=endpoint.address)
        return endpoint

    @property
    def address(self) -> str:
        assert self._server is not None
        return self._server.address

    def attach(self, node: Node, node_id: BrokerId) -> None:
        """The node is there, and may run."""
        self._node = node
        if self._meters is not None:
            sources, ticks = sources_of(node, node_id, self._meters)
            self._sources = (*self._sources, *sources)
            self._watching = asyncio.create_task(watch(ticks), name="metrics-watch")

    async def close(self) -> None:
        assert self._server is not None
        await self._server.close()
        if self._meters is not None:
            self._meters.loop.stop()
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.wait((self._watching,))
        await self._page.close()

    async def answer(self, request: Request) -> Response:
        match request.path:
            case "/livez":
                return text(HTTPStatus.OK, "alive")
            case "/readyz":
                return await self._ready()
            case "/metrics":
                form = Format.accepted(request.headers.get("accept", ""))
                return Response(HTTPStatus.OK, await self._page.get(form), form.value)
        return text(HTTPStatus.NOT_FOUND, f"there is nothing here, but at {', '.join(_PATHS)}")

    async def _ready(self) -> Response:
        missing = ["the node is starting"] if self._node is None else await self._node.missing()
        if missing:
            return text(HTTPStatus.SERVICE_UNAVAILABLE, "not ready", *missing)
        return text(HTTPStatus.OK, "ready")
