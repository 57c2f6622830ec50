"""The serving side of the grpcio transport: services, health and reflection on one address."""

from __future__ import annotations

import asyncio
import math
import socket
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import Any, Final, TypeAlias

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc  # type: ignore[import-untyped]  # no types
from grpc_reflection.v1alpha import reflection  # type: ignore[import-untyped]  # no types

from quorate.core.transport import CallKind, Handler, Method, Service
from quorate.errors import CannotListen, InvalidRequest, QuorateError, RequestTimedOut
from quorate.rpc.dispatch import Admission, Admissions, parse_request, run_stream, run_unary
from quorate.rpc.grpc_errors import status_from_error
from quorate.rpc.grpcio_logging import quieten_grpcio
from quorate.rpc.grpcio_options import GrpcioOptions
from quorate.rpc.reading_turns import ReadingTurns
from quorate.rpc.stalled_readers import HandOver, StalledReaders
from quorate.rpc.traffic import MethodTraffic

__all__ = ["GrpcioServer"]

_PORT_MAX: Final = 65535

_Context: TypeAlias = grpc.aio.ServicerContext[Any, Any]
_UnaryBehaviour: TypeAlias = Callable[[AsyncIterator[bytes], _Context], Awaitable[bytes]]
_StreamBehaviour: TypeAlias = Callable[[AsyncIterator[bytes], _Context], AsyncGenerator[bytes, None]]


class GrpcioServer:
    def __init__(self, address: str, services: Sequence[Service], options: GrpcioOptions) -> None:
        quieten_grpcio()
        self._services = services
        self._options = options
        self._health = _Health()
        self._server = grpc.aio.server(options=options.server_arguments())
        self._admissions = Admissions(
            requests_max=options.requests_max,
            streams_max=options.streams_max,
            internal_calls_max=options.internal_calls_max,
        )
        self._turns_of_clients = ReadingTurns(options.reading_turns, limit_s=options.arrival_s_max)
        # Nodes do not hold each other up; a turn for each call leaves the limit in time.
        self._turns_of_nodes = ReadingTurns(options.internal_calls_max, limit_s=options.arrival_s_max)
        self._stalled_readers = StalledReaders(options.taking_s_max)
        for service in services:
            handlers = {
                method.name: self._bind(method, handler, service)
                for method, handler in service.handlers.items()
            }
            self._server.add_generic_rpc_handlers(
                (grpc.method_handlers_generic_handler(service.name, handlers),)
            )
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        names = [service.name for service in services]
        names += [health.SERVICE_NAME, reflection.SERVICE_NAME]
        reflection.enable_server_reflection(names, self._server)
        self.address = address

    async def start(self, *, serving: bool) -> None:
        try:
            self.address = self._listen()
        except CannotListen:
            # Otherwise grpcio cleans up when the garbage is collected, on a loop that may be gone by then.
            await self._server.stop(None)
            raise
        await self.set_serving(serving=serving)
        await self._server.start()
        self._stalled_readers.start(int(self.address.rpartition(":")[2]))

    async def set_serving(self, *, serving: bool) -> None:
        states = health_pb2.HealthCheckResponse.ServingStatus
        state = states.SERVING if serving else states.NOT_SERVING
        for name in ("", *(service.name for service in self._services)):
            await self._health.set(name, state)

    async def stop(self, grace_s: float) -> None:
        await self._health.enter_graceful_shutdown()
        # Whoever watches the health is not worth waiting for, and would never end by itself.
        self._health.end_watches()
        await self._server.stop(grace_s)
        self._stalled_readers.stop()

    def _listen(self) -> str:
        host, _, port = self.address.rpartition(":")
        # grpcio would take port 99999 for 34463, and an address without a port for port 443.
        if not host or not port.isdecimal() or int(port) > _PORT_MAX:
            message = f"cannot listen on {self.address}: it is not HOST:PORT with a port up to {_PORT_MAX}"
            raise CannotListen(message, address=self.address)
        try:
            bound = self._server.add_insecure_port(self.address)
        except RuntimeError as error:
            message = f"cannot listen on {self.address}: {_why_not(host, int(port))}"
            raise CannotListen(message, address=self.address) from error
        return f"{host}:{bound}"

    def _bind(
        self, method: Method[Any, Any], handler: Handler, service: Service
    ) -> grpc.RpcMethodHandler[bytes, bytes]:
        admission = self._admissions.of(service, method)
        traffic = self._options.traffic.of(method)
        if method.kind is CallKind.STREAM:
            return grpc.stream_stream_rpc_method_handler(
                self._stream_behaviour(method, handler, admission, traffic)
            )
        turns = self._turns_of_nodes if service.is_internal else self._turns_of_clients
        # The same on the wire as unary, and served without having read all of the request first.
        return grpc.stream_unary_rpc_method_handler(
            self._unary_behaviour(method, handler, admission, turns, traffic)
        )

    def _unary_behaviour(
        self,
        method: Method[Any, Any],
        handler: Any,
        admission: Admission,
        turns: ReadingTurns,
        traffic: MethodTraffic,
    ) -> _UnaryBehaviour:
        async def serve(_contents: AsyncIterator[bytes], context: _Context) -> bytes:
            try:
                _enter(admission, method, traffic)
                call = _GrpcioCall(context)
                call.when_over(admission.leave)
                content = await self._answer(method, handler, turns, call, traffic)
                traffic.sent(len(content))
                return content
            except QuorateError as error:
                # Without its frames, which hold the request: the context keeps what it raises below, in a
                # cycle, until the garbage is collected, which the size of a request does not hasten.
                refusal = status_from_error(error)
            await context.abort_with_status(refusal)
            raise AssertionError("unreachable: abort raises")

        return serve

    async def _answer(
        self,
        method: Method[Any, Any],
        handler: Any,
        turns: ReadingTurns,
        call: _GrpcioCall,
        traffic: MethodTraffic,
    ) -> bytes:
        # grpcio's task for this call ends when the transport has taken what is returned here, or never will.
        task = asyncio.current_task()
        assert task is not None
        task.add_done_callback(call.over)
        try:
            content = await turns.read(method, call.read, call.name_peer)
            traffic.received(len(content))
            request = parse_request(method, content)
        except QuorateError as error:
            traffic.refused(error.code)
            raise
        del content
        # gRPC cancels a call at its client's deadline; to a client that set none, this server's applies.
        limit_s = call.limit(self._options.default_timeout_s)
        try:
            async with asyncio.timeout(limit_s):
                response = await run_unary(handler, method, request, call)
        except TimeoutError:
            message = f"not done within {limit_s} s, the limit for calls that set none"
            raise RequestTimedOut(message, method=method.path) from None
        self._hand_over(call)
        return bytes(response.SerializeToString())

    def _hand_over(self, call: _GrpcioCall) -> None:
        hand_over = HandOver(call.name_peer)
        hand_over.begin()
        self._stalled_readers.add(hand_over)
        call.when_over(lambda: self._stalled_readers.discard(hand_over))

    def _stream_behaviour(
        self, method: Method[Any, Any], handler: Any, admission: Admission, traffic: MethodTraffic
    ) -> _StreamBehaviour:
        async def serve(contents: AsyncIterator[bytes], context: _Context) -> AsyncGenerator[bytes, None]:
            requests = _parsed(method, contents, traffic)
            call = _GrpcioCall(context)
            try:
                _enter(admission, method, traffic)
                call.when_over(admission.leave)
                with self._stalled_readers.watch(call.name_peer) as hand_over:
                    async with aclosing(run_stream(handler, method, requests, call)) as responses:
                        async for response in responses:
                            content = response.SerializeToString()
                            traffic.sent(len(content))
                            hand_over.begin()
                            yield content
                            del content
                            hand_over.end()
                return
            except QuorateError as error:
                refusal = status_from_error(error)
            finally:
                call.over()
            # Outside, as above: the error's own frames hold the request that failed.
            await context.abort_with_status(refusal)

        return serve


class _Health(health.aio.HealthServicer):  # type: ignore[misc]  # no types
    """Knows who watches."""

    def __init__(self) -> None:
        super().__init__()
        self._watches: dict[asyncio.Task[Any], None] = {}

    async def Watch(self, request: Any, context: Any) -> None:  # noqa: N802 - gRPC's name
        task = asyncio.current_task()
        assert task is not None
        self._watches[task] = None
        try:
            await super().Watch(request, context)
        finally:
            del self._watches[task]

    def end_watches(self) -> None:
        for task in self._watches:
            task.cancel()


def _enter(admission: Admission, method: Method[Any, Any], traffic: MethodTraffic) -> None:
    try:
        admission.enter(method)
    except QuorateError as error:
        traffic.refused(error.code)
        raise


async def _parsed(
    method: Method[Any, Any], contents: AsyncIterator[bytes], traffic: MethodTraffic
) -> AsyncGenerator[Any, None]:
    # Not a generator expression: that would begin to read at once, also for a handler that never does.
    async for content in contents:
        traffic.received(len(content))
        try:
            request = parse_request(method, content)
        except QuorateError as error:
            traffic.refused(error.code)
            raise
        yield request


class _GrpcioCall:
    __slots__ = ("_context", "_deadline", "_on_over")

    def __init__(self, context: _Context) -> None:
        remaining_s = context.time_remaining()
        self._context = context
        self._deadline = math.inf if remaining_s is None else _now() + remaining_s
        self._on_over: list[Callable[[], None]] = []

    @property
    def peer(self) -> str:
        return self.name_peer()

    def name_peer(self) -> str:
        return str(self._context.peer())

    def remaining_s(self) -> float:
        return max(0.0, self._deadline - _now())

    def when_over(self, callback: Callable[[], None]) -> None:
        self._on_over.append(callback)

    def over(self, _task: object = None) -> None:
        on_over, self._on_over = self._on_over, []
        for callback in on_over:
            callback()

    def limit(self, limit_s: float) -> float | None:
        """Sets the deadline from now on, if the client has not; None: it has."""
        if self._deadline < math.inf:
            return None
        self._deadline = _now() + limit_s
        return limit_s

    async def read(self) -> bytes:
        content = await self._context.read()
        if content is grpc.aio.EOF:
            raise InvalidRequest("the call has no request")
        return bytes(content)


def _now() -> float:
    return asyncio.get_running_loop().time()


def _why_not(host: str, port: int) -> str:
    """grpcio says only that it failed; the operating system knows more."""
    try:
        with socket.create_server((host.strip("[]"), port)):
            return "grpcio refused it"
    except OSError as error:
        return str(error)
