"""The server of gRPC's interoperability tests (grpc/doc/interop-test-descriptions.md)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any, Final

from quorate.core.transport import Service
from quorate.rpc.lean.status import StatusCode, StatusError
from tests.interop.grpc_testing.messages import TEST_SERVICE, message

__all__ = ["interop_service"]

_ECHO_INITIAL: Final = "x-grpc-test-echo-initial"
_ECHO_TRAILING: Final = "x-grpc-test-echo-trailing-bin"

Payload = message("Payload")
StreamingOutputCallResponse = message("StreamingOutputCallResponse")


def interop_service() -> Service:
    return Service(
        TEST_SERVICE,
        {
            "EmptyCall": _empty_call,
            "UnaryCall": _unary_call,
            "CacheableUnaryCall": _unary_call,
            "StreamingOutputCall": _full_duplex_call,
            "StreamingInputCall": _streaming_input_call,
            "FullDuplexCall": _full_duplex_call,
            "HalfDuplexCall": _half_duplex_call,
        },
    )


def _echo_metadata(call: Any) -> None:
    told = dict(call.metadata)
    call.initial_metadata = tuple((name, told[name]) for name in (_ECHO_INITIAL,) if name in told)
    call.trailing_metadata = tuple((name, told[name]) for name in (_ECHO_TRAILING,) if name in told)


def _raise_status(request: Any) -> None:
    status = request.response_status
    if status.code:
        raise StatusError(StatusCode(status.code), status.message)


async def _empty_call(_request: Any, _call: Any) -> Any:
    return message("Empty")()


async def _unary_call(request: Any, call: Any) -> Any:
    _echo_metadata(call)
    _raise_status(request)
    response = message("SimpleResponse")(payload=Payload(body=bytes(request.response_size)))
    if request.fill_server_id:
        response.server_id = "the only one"
    return response


async def _streaming_input_call(requests: AsyncIterator[Any], _call: Any) -> AsyncGenerator[Any, None]:
    size = 0
    async for request in requests:
        size += len(request.payload.body)
    yield message("StreamingInputCallResponse")(aggregated_payload_size=size)


async def _full_duplex_call(requests: AsyncIterator[Any], call: Any) -> AsyncGenerator[Any, None]:
    _echo_metadata(call)
    async for request in requests:
        _raise_status(request)
        for wanted in request.response_parameters:
            await asyncio.sleep(wanted.interval_us / 1e6)
            yield StreamingOutputCallResponse(payload=Payload(body=bytes(wanted.size)))


async def _half_duplex_call(requests: AsyncIterator[Any], call: Any) -> AsyncGenerator[Any, None]:
    held = [request async for request in requests]

    async def again() -> AsyncIterator[Any]:
        for request in held:
            yield request

    async for response in _full_duplex_call(again(), call):
        yield response
