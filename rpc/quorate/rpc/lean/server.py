"""The serving side of the lean transport: services, health and reflection on one address."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from quorate.core.logging import get_logger
from quorate.core.served_exchange import ExchangeHandler
from quorate.core.transport import CallKind, Handler, Method, Service
from quorate.errors import QuorateError
from quorate.rpc.dispatch import Admission, Admissions
from quorate.rpc.lean.exchange_call import ExchangeCall
from quorate.rpc.lean.frames import ErrorCode
from quorate.rpc.lean.grpc_headers import RequestHead, request_head
from quorate.rpc.lean.header_codec import HeaderList
from quorate.rpc.lean.held import Held
from quorate.rpc.lean.link import KeepAlive, Link
from quorate.rpc.lean.listening import Listening, listen
from quorate.rpc.lean.options import LeanOptions
from quorate.rpc.lean.server_call import (
    CallSurroundings,
    Route,
    ServerCall,
    refuse_stream,
    status_of,
)
from quorate.rpc.lean.settings import LocalSettings
from quorate.rpc.lean.standard_services import Health, reflection_service
from quorate.rpc.lean.status import Status, StatusCode
from quorate.rpc.lean.strangers import Stranger, Strangers
from quorate.rpc.lean.stream import Stream, StreamListener
from quorate.rpc.lean.stream_call import StreamCall
from quorate.rpc.lean.unary_call import UnaryCall
from quorate.rpc.lean.untaken import Untaken
from quorate.rpc.reading_turns import ReadingTurns

__all__ = ["LeanServer"]

log = get_logger(__name__)

#: of health and reflection, calls and streams at once, each sort of either
_STANDARD_CALLS_MAX: Final = 1_000
#: how often one limit's time is looked at; what is late is found late by this part of the limit at most
_LOOKS_PER_LIMIT: Final = 4
#: of an encoding's name, when it is refused by name
_ENCODING_BYTES_TOLD: Final = 20
#: for handlers to end that were cancelled, and connections to close
_END_S: Final = 5.0


class LeanServer:
    def __init__(self, address: str, services: Sequence[Service], options: LeanOptions) -> None:
        self.address = address
        self.options = options
        self.routes: dict[bytes, Route] = {}
        self.surroundings = CallSurroundings(asyncio.get_running_loop(), options, set())
        self.links: dict[Link, None] = {}
        #: of clients
        self._turns = ReadingTurns(options.reading_turns, limit_s=options.arrival_s_max)
        self._held = {
            CallKind.UNARY: Held(options.arriving_bytes_max),
            CallKind.STREAM: Held(options.unread_bytes_max),
        }
        self._untaken = Untaken(options.untaken_bytes_max)
        #: of nodes, apart: clients cannot hold what nodes need
        self._held_of_nodes = Held(options.internal_arriving_bytes_max)
        self._untaken_of_nodes = Untaken(options.internal_untaken_bytes_max)
        self._names = [service.name for service in services]
        self._listening: list[Listening] = []
        #: of connections whose encryption is being agreed on
        self._handshakes: set[asyncio.Task[None]] = set()
        self._health = Health()
        self._looking: asyncio.TimerHandle | None = None
        self._is_stopping = False
        #: woken when a call or a connection has ended, while the server stops
        self._ended = asyncio.Event()
        self.strangers = Strangers(self.surroundings.loop, on_over=self.call_over)
        self._route_services(services)
        self._route_standard_services(self._names)

    def _route_services(self, services: Sequence[Service]) -> None:
        options = self.options
        admissions = Admissions(
            requests_max=options.requests_max,
            streams_max=options.streams_max,
            internal_calls_max=options.internal_calls_max,
        )
        for service in services:
            for method, handler in service.handlers.items():
                # Nodes do not wait for turns: they would hold each other up.
                is_internal = service.is_internal
                self.routes[method.path.encode()] = Route(
                    method=method,
                    handler=handler,
                    call_type=_call_type(method, handler),
                    admission=admissions.of(service, method),
                    turns=None if is_internal else self._turns,
                    held=self._held_of_nodes if is_internal else self._held[method.kind],
                    untaken=self._untaken_of_nodes if is_internal else self._untaken,
                    is_internal=is_internal,
                    traffic=options.traffic.of(method),
                )

    def _route_standard_services(self, names: Sequence[str]) -> None:
        for service in (self._health.service, reflection_service(names)):
            # Those who watch the health stay for days, and must not shut out those who check it.
            admissions = {kind: Admission(_STANDARD_CALLS_MAX) for kind in CallKind}
            for method, handler in service.handlers.items():
                self.routes[method.path.encode()] = Route(
                    method=method,
                    handler=handler,
                    call_type=_call_type(method, handler),
                    admission=admissions[method.kind],
                    turns=self._turns,
                    held=self._held[method.kind],
                    untaken=self._untaken,
                    is_internal=False,
                )

    async def start(self, *, serving: bool) -> None:
        await self.set_serving(serving=serving)
        self.address, self._listening = await listen(
            self.address,
            self._make_link,
            self.options,
            handshakes=self._handshakes,
            has_room=lambda: len(self.links) + len(self._handshakes) < self.options.connections_max,
        )
        self._look_later()

    async def set_serving(self, *, serving: bool) -> None:
        self._health.set(("", *self._names), serving=serving)

    def _make_link(self) -> Link:
        options = self.options
        client = _Client(self)
        link = Link(
            client,
            is_client=False,
            settings=LocalSettings(
                window_bytes=options.window_bytes, streams_max=options.connection_calls_max
            ),
            limits=options.limits,
            keep_alive=KeepAlive(options.keepalive_s, options.keepalive_timeout_s),
            on_opened=self._link_opened,
            on_closed=self._link_closed,
        )
        client.link = link
        link.count_with(self._untaken)
        return link

    def _link_opened(self, link: Link) -> None:
        self.links[link] = None
        if self._is_stopping:
            # Accepted before, and told of now.
            link.abort()
        elif len(self.links) > self.options.connections_max:
            log.warning("too_many_connections", connections_max=self.options.connections_max)
            link.fail(ErrorCode.ENHANCE_YOUR_CALM, "too many connections")

    def _link_closed(self, link: Link) -> None:
        self.links.pop(link, None)
        self._ended.set()

    # ---- the end

    async def stop(self, grace_s: float) -> None:
        self._is_stopping = True
        deadline = self.surroundings.loop.time() + grace_s
        for listening in self._listening:
            listening.close()
        # Whoever watches the health is not worth waiting for, and would never end by itself.
        self._health.stop()
        for link in self.links:
            link.connection.go_away("the server is stopping")
        try:
            async with asyncio.timeout(grace_s):
                while any(link.connection.streams for link in self.links):
                    await self._next_end()
        except TimeoutError:
            self._stop_calls()
        await self._end_tasks()
        # What was handed over may still be on its way: that is what is left of the grace for.
        left_s = max(0.0, deadline - self.surroundings.loop.time())
        for link in list(self.links):
            link.part(left_s)
        await self._all_closed(left_s)
        if self._looking is not None:
            self._looking.cancel()

    async def _next_end(self) -> None:
        self._ended.clear()
        await self._ended.wait()

    def call_over(self) -> None:
        self._ended.set()

    def _stop_calls(self) -> None:
        for call in self._calls():
            call.stop()

    async def _end_tasks(self) -> None:
        if self.surroundings.ending:
            _, late = await asyncio.wait(self.surroundings.ending, timeout=_END_S)
            for task in late:
                log.warning("handler_does_not_end", task=repr(task))

    async def _all_closed(self, left_s: float) -> None:
        try:
            async with asyncio.timeout(left_s + _END_S):
                while self.links:
                    await self._next_end()
        except TimeoutError:
            for link in list(self.links):
                link.abort()

    # ---- looking after clients that are too slow

    def _look_later(self) -> None:
        options = self.options
        limit_s = min(options.arrival_s_max, options.taking_s_max, options.greeting_s_max)
        self._looking = self.surroundings.loop.call_later(limit_s / _LOOKS_PER_LIMIT, self._look)

    def _look(self) -> None:
        """All at once, rather than a timer for each: next to none is ever late."""
        self._look_later()
        now = self.surroundings.loop.time()
        for link in self.links:
            link.look_at_taking(now)
        limit_s = self.options.taking_s_max
        for call in self._calls():
            if _is_late(call.arriving_since, self.options.arrival_s_max, now):
                call.refuse_late()
            call.look_at_taking(now)
            if call.is_stuck(now, limit_s):
                log.warning("stalled_reader_cut", peer=call.peer, limit_s=limit_s)
                call.cut()
        for link in list(self.links):
            self._look_at_link(link, now)
        for untaken in (self._untaken, self._untaken_of_nodes):
            untaken.measure()

    def _look_at_link(self, link: Link, now: float) -> None:
        limit_s = self.options.taking_s_max
        # The little that was not written yet: what is beside the socket is told at once.
        link.count_untaken()
        if not link.connection.peer.are_known and _is_late(link.since, self.options.greeting_s_max, now):
            link.fail(ErrorCode.SETTINGS_TIMEOUT, "nothing was said for too long")
        elif link.is_paused and link.is_stuck(now, limit_s):
            log.warning("stalled_connection_cut", peer=link.peer, limit_s=limit_s)
            link.abort()

    def _calls(self) -> list[_Watched]:
        return [
            stream.listener
            for link in self.links
            for stream in link.connection.streams.values()
            if isinstance(stream.listener, ServerCall | Stranger)
        ]


def _is_late(since: float | None, limit_s: float, now: float) -> bool:
    return since is not None and now - since >= limit_s


class _Client:
    """One connection, and the calls that come over it."""

    def __init__(self, server: LeanServer) -> None:
        self._server = server
        self.link: Link | None = None
        #: it has called what only nodes call
        self._is_node = False

    def on_settings(self) -> None: ...
    def on_goaway(self) -> None: ...

    def on_stream(self, stream: Stream, found: HeaderList) -> StreamListener:
        assert self.link is not None
        server = self._server
        head = request_head(found)
        if not head.is_grpc:
            return server.strangers.on_stream(stream, self.link)
        route = server.routes.get(head.path)
        if route is None or head.encoding != b"identity" or head.is_timeout_broken:
            # No client of ours does so; and an answer to nothing but headers is cheap to ask for.
            stream.connection.rates.count_reset()
            refuse_stream(stream, _why_not(head, route))
            return stream.connection.nobody
        try:
            call: ServerCall = route.call_type(route, stream, head, found, self.link, server.surroundings)
        except QuorateError as error:
            route.traffic.refused(error.code)
            refuse_stream(stream, status_of(error))
            return stream.connection.nobody
        call.when_over(server.call_over)
        if not self._is_node and route.is_internal:
            self._is_node = True
            self.link.count_with(route.untaken)
        return call


def _call_type(method: Method[Any, Any], handler: Handler) -> type[ServerCall]:
    if method.kind is CallKind.UNARY:
        return UnaryCall
    return ExchangeCall if isinstance(handler, ExchangeHandler) else StreamCall


def _why_not(head: RequestHead, route: Route | None) -> Status:
    if route is None:
        return Status(StatusCode.UNIMPLEMENTED, "there is no such method here")
    if head.is_timeout_broken:
        return Status(StatusCode.INTERNAL, "grpc-timeout is no timeout")
    encoding = head.encoding[:_ENCODING_BYTES_TOLD].decode("ascii", "replace")
    return Status(StatusCode.UNIMPLEMENTED, f"nothing compressed is accepted, not with {encoding} either")


_Watched = ServerCall | Stranger
