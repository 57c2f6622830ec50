"""The calling side of the grpcio transport.

Three habits of grpcio are undone here. It cancels the caller's task when the channel is closed; it forgets
how a stream ended if the server ended it while a request was being sent (``_LastWord``); and when a stream
ends by itself, it leaves the task behind that reads the caller's requests (``_Requests.stop``).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, Coroutine
from contextlib import suppress
from typing import Any, Final, TypeAlias

import grpc

from quorate.core.transport import Method, Request, Response
from quorate.errors import Unavailable
from quorate.rpc.dispatch import parse_response
from quorate.rpc.grpc_errors import error_from_rpc
from quorate.rpc.grpcio_options import GrpcioOptions

__all__ = ["GrpcioChannel"]


_StreamCall: TypeAlias = grpc.aio.StreamStreamCall[bytes, bytes]
_NO_METADATA: Final = grpc.aio.Metadata()
#: how long to wait for a status that is on its way inside this process
_LAST_WORD_S: Final = 1.0


class GrpcioChannel:
    def __init__(self, address: str, options: GrpcioOptions) -> None:
        self.address = address
        self._channel = grpc.aio.insecure_channel(address, options=options.channel_arguments())
        self._unary: dict[str, grpc.aio.UnaryUnaryMultiCallable[bytes, bytes]] = {}
        self._streams: dict[str, grpc.aio.StreamStreamMultiCallable[bytes, bytes]] = {}

    async def call(
        self, method: Method[Request, Response], request: Request, *, timeout_s: float
    ) -> Response:
        start = self._unary.get(method.path)
        if start is None:
            start = self._unary[method.path] = self._channel.unary_unary(method.path)
        try:
            content = await start(request.SerializeToString(), timeout=timeout_s)
        except grpc.aio.AioRpcError as error:
            raise error_from_rpc(error, method, self.address) from error
        except (grpc.aio.UsageError, asyncio.CancelledError) as error:
            raise self._closed_under_the_call(error, method) from None
        return parse_response(method, content)

    async def stream(
        self, method: Method[Request, Response], requests: AsyncIterable[Request], *, timeout_s: float | None
    ) -> AsyncGenerator[Response, None]:
        start = self._streams.get(method.path)
        if start is None:
            start = self._streams[method.path] = self._channel.stream_stream(method.path)
        source = _Requests(requests)
        try:
            call = start(source.serialized(), timeout=timeout_s)
        except grpc.aio.UsageError as error:
            raise self._closed_under_the_call(error, method) from None
        last_word = _LastWord(call)
        try:
            async for content in call:
                yield parse_response(method, content)
        except grpc.aio.AioRpcError as error:
            real = await last_word.instead_of(error)
            raise source.failure or error_from_rpc(real, method, self.address) from error
        except asyncio.CancelledError as error:
            raise source.failure or self._closed_under_the_call(error, method) from None
        finally:
            call.cancel()
            source.stop()

    async def close(self) -> None:
        await self._channel.close()

    def _closed_under_the_call(self, error: BaseException, method: Method[Any, Any]) -> BaseException:
        """grpcio cancels the calls of a channel that is closed, and their callers with them.

        To a caller that nobody cancelled, that is a connection that broke.
        """
        task = asyncio.current_task()
        if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling():
            return error
        return Unavailable(
            f"the channel to {self.address} is closed", address=self.address, method=method.path
        )


class _Requests:
    """The caller's requests on their way to grpcio, which would hide an error raised by them."""

    def __init__(self, requests: AsyncIterable[Any]) -> None:
        self._requests = requests
        self.failure: Exception | None = None
        self._reader: asyncio.Task[Any] | None = None
        self._is_stopped = False

    async def serialized(self) -> AsyncGenerator[bytes, None]:
        if self._is_stopped:
            return
        self._reader = asyncio.current_task()
        try:
            async for request in self._requests:
                yield request.SerializeToString()
        except Exception as error:
            self.failure = error
            raise

    def stop(self) -> None:
        """The call is over. Without this, grpcio's task would wait for the next request for ever."""
        self._is_stopped = True
        if self._reader is not None:
            self._reader.cancel()


class _LastWord:
    """How the server ended a stream.

    When a request cannot be sent because the server has just ended the stream, grpcio replaces the
    server's status by an internal error of its own, before or after the real one arrives
    (https://github.com/grpc/grpc/issues/36066). The real one is caught here as it passes by.
    """

    def __init__(self, call: _StreamCall) -> None:
        self._status: grpc.aio.AioRpcError | None = None
        self._known = asyncio.Event()
        call.add_done_callback(self._status_set)

    async def instead_of(self, error: grpc.aio.AioRpcError) -> grpc.aio.AioRpcError:
        if not _is_grpcios_own(error.code(), error.details()):
            return error
        with suppress(TimeoutError):
            async with asyncio.timeout(_LAST_WORD_S):
                await self._known.wait()
        if self._status is None or self._status.code() is grpc.StatusCode.OK:
            # Also a good end is none here: answers that came before it may have been thrown away.
            details = "the server ended the stream while a request was being sent"
            return grpc.aio.AioRpcError(grpc.StatusCode.UNAVAILABLE, _NO_METADATA, _NO_METADATA, details)
        return self._status

    def _status_set(self, call: Any) -> None:
        code, details = _result_of(call.code()), _result_of(call.details())
        if not _is_grpcios_own(code, details):
            trailers = _result_of(call.trailing_metadata())
            self._status = grpc.aio.AioRpcError(code, _NO_METADATA, trailers, details)
            self._known.set()


def _is_grpcios_own(code: grpc.StatusCode, details: str | None) -> bool:
    return code is grpc.StatusCode.INTERNAL and details == "Internal error from Core"


def _result_of(finished: Coroutine[Any, Any, Any]) -> Any:
    """Of a coroutine that has nothing to wait for, as a call's status once it is set."""
    try:
        finished.send(None)
    except StopIteration as stop:
        return stop.value
    raise AssertionError("the call is not finished")
