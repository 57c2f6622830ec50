"""The calling side of the grpcio transport."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable
from typing import Any

import grpc

from quorate.core.transport import Method, Request, Response
from quorate.errors import Unavailable
from quorate.rpc.dispatch import parse_response
from quorate.rpc.grpc_errors import error_from_rpc
from quorate.rpc.grpcio_options import GrpcioOptions

__all__ = ["GrpcioChannel"]


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
        try:
            async for content in call:
                yield parse_response(method, content)
        except grpc.aio.AioRpcError as error:
            raise source.failure or error_from_rpc(error, method, self.address) from error
        except asyncio.CancelledError as error:
            raise source.failure or self._closed_under_the_call(error, method) from None
        finally:
            call.cancel()

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

    async def serialized(self) -> AsyncGenerator[bytes, None]:
        try:
            async for request in self._requests:
                yield request.SerializeToString()
        except Exception as error:
            self.failure = error
            raise
