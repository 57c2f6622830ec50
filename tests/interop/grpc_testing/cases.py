"""The client of gRPC's interoperability tests, with our channel: one function per case.

Names and steps are those of grpc/doc/interop-test-descriptions.md. A case that fails raises.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from typing import Any, Final

from quorate.errors import QuorateError, RequestTimedOut
from quorate.rpc.lean.channel import LeanChannel
from tests.interop.grpc_testing.messages import METHODS, UNIMPLEMENTED_METHOD, UNIMPLEMENTED_SERVICE, message

__all__ = ["CASES", "Case"]

Case = Callable[[LeanChannel], Awaitable[None]]

_AMPLE_S: Final = 30.0
_REQUEST_SIZES: Final = (27182, 8, 1828, 45904)
_RESPONSE_SIZES: Final = (31415, 9, 2653, 58979)
_SPECIAL: Final = "\t\ntest with whitespace\r\nand Unicode BMP ☺ and non-BMP \U0001f608\t\n"

Payload = message("Payload")
SimpleRequest = message("SimpleRequest")
StreamingInputCallRequest = message("StreamingInputCallRequest")
StreamingOutputCallRequest = message("StreamingOutputCallRequest")
ResponseParameters = message("ResponseParameters")
EchoStatus = message("EchoStatus")


async def _each(*requests: Any) -> AsyncIterator[Any]:
    for request in requests:
        yield request


def _simple_request(**fields: Any) -> Any:
    return SimpleRequest(response_size=314159, payload=Payload(body=bytes(271828)), **fields)


def _output_request(response_size: int, request_size: int) -> Any:
    return StreamingOutputCallRequest(
        response_parameters=[ResponseParameters(size=response_size)],
        payload=Payload(body=bytes(request_size)),
    )


async def _expect_status(name: str, call: Awaitable[Any]) -> QuorateError:
    try:
        await call
    except QuorateError as error:
        if error.facts["grpc_status"] == name:
            return error
        raise
    raise AssertionError(f"{name} was to be expected")


async def _collect(responses: Any) -> list[Any]:
    return [response async for response in responses]


async def empty_unary(channel: LeanChannel) -> None:
    response = await channel.call(METHODS["EmptyCall"], message("Empty")(), timeout_s=_AMPLE_S)
    assert response == message("Empty")()


async def large_unary(channel: LeanChannel) -> None:
    response = await channel.call(METHODS["UnaryCall"], _simple_request(), timeout_s=_AMPLE_S)
    assert response.payload.body == bytes(314159)


async def client_streaming(channel: LeanChannel) -> None:
    requests = [StreamingInputCallRequest(payload=Payload(body=bytes(size))) for size in _REQUEST_SIZES]
    responses = channel.stream(METHODS["StreamingInputCall"], _each(*requests), timeout_s=_AMPLE_S)
    [response] = await _collect(responses)
    assert response.aggregated_payload_size == sum(_REQUEST_SIZES)


async def server_streaming(channel: LeanChannel) -> None:
    wanted = [ResponseParameters(size=size) for size in _RESPONSE_SIZES]
    request = StreamingOutputCallRequest(response_parameters=wanted)
    responses = channel.stream(METHODS["StreamingOutputCall"], _each(request), timeout_s=_AMPLE_S)
    assert [len(each.payload.body) for each in await _collect(responses)] == list(_RESPONSE_SIZES)


async def ping_pong(channel: LeanChannel) -> None:
    asked: asyncio.Queue[Any] = asyncio.Queue()

    async def requests() -> AsyncIterator[Any]:
        while (request := await asked.get()) is not None:
            yield request

    responses = channel.stream(METHODS["FullDuplexCall"], requests(), timeout_s=_AMPLE_S)
    async with aclosing(responses):
        for request_size, response_size in zip(_REQUEST_SIZES, _RESPONSE_SIZES, strict=True):
            asked.put_nowait(_output_request(response_size, request_size))
            assert len((await anext(responses)).payload.body) == response_size
        asked.put_nowait(None)
        assert await _collect(responses) == []


async def empty_stream(channel: LeanChannel) -> None:
    assert await _collect(channel.stream(METHODS["FullDuplexCall"], _each(), timeout_s=_AMPLE_S)) == []


async def timeout_on_sleeping_server(channel: LeanChannel) -> None:
    async def requests() -> AsyncIterator[Any]:
        yield StreamingOutputCallRequest(payload=Payload(body=bytes(27182)))
        await asyncio.get_running_loop().create_future()

    try:
        await _collect(channel.stream(METHODS["FullDuplexCall"], requests(), timeout_s=0.001))
    except RequestTimedOut:
        return
    raise AssertionError("the deadline was to be expected")


async def cancel_after_begin(channel: LeanChannel) -> None:
    async def requests() -> AsyncIterator[Any]:
        yield await asyncio.get_running_loop().create_future()

    call = asyncio.ensure_future(
        _collect(channel.stream(METHODS["StreamingInputCall"], requests(), timeout_s=_AMPLE_S))
    )
    await asyncio.sleep(0.05)
    call.cancel()
    try:
        await call
    except asyncio.CancelledError:
        return
    raise AssertionError("the call went on")


async def cancel_after_first_response(channel: LeanChannel) -> None:
    async def requests() -> AsyncIterator[Any]:
        yield _output_request(31415, 27182)
        await asyncio.get_running_loop().create_future()

    responses = channel.stream(METHODS["FullDuplexCall"], requests(), timeout_s=_AMPLE_S)
    assert len((await anext(responses)).payload.body) == 31415
    await responses.aclose()
    await empty_unary(channel)


async def custom_metadata(channel: LeanChannel) -> None:
    metadata = (
        ("x-grpc-test-echo-initial", b"test_initial_metadata_value"),
        ("x-grpc-test-echo-trailing-bin", b"\xab\xab\xab"),
    )
    ended = await channel.ended_call(
        METHODS["UnaryCall"], _simple_request(), timeout_s=_AMPLE_S, metadata=metadata
    )
    assert ("x-grpc-test-echo-initial", b"test_initial_metadata_value") in ended.initial_metadata
    assert ("x-grpc-test-echo-trailing-bin", b"\xab\xab\xab") in ended.trailing_metadata


async def status_code_and_message(channel: LeanChannel) -> None:
    status = EchoStatus(code=2, message="test status message")
    unary = channel.call(METHODS["UnaryCall"], SimpleRequest(response_status=status), timeout_s=_AMPLE_S)
    error = await _expect_status("UNKNOWN", unary)
    assert error.message.endswith("UNKNOWN: test status message")
    request = StreamingOutputCallRequest(response_status=status)
    duplex = _collect(channel.stream(METHODS["FullDuplexCall"], _each(request), timeout_s=_AMPLE_S))
    error = await _expect_status("UNKNOWN", duplex)
    assert error.message.endswith("UNKNOWN: test status message")


async def special_status_message(channel: LeanChannel) -> None:
    request = SimpleRequest(response_status=EchoStatus(code=2, message=_SPECIAL))
    call = channel.call(METHODS["UnaryCall"], request, timeout_s=_AMPLE_S)
    error = await _expect_status("UNKNOWN", call)
    assert error.message.endswith(_SPECIAL), error.message


async def unimplemented_method(channel: LeanChannel) -> None:
    call = channel.call(UNIMPLEMENTED_METHOD, message("Empty")(), timeout_s=_AMPLE_S)
    await _expect_status("UNIMPLEMENTED", call)


async def unimplemented_service(channel: LeanChannel) -> None:
    call = channel.call(UNIMPLEMENTED_SERVICE, message("Empty")(), timeout_s=_AMPLE_S)
    await _expect_status("UNIMPLEMENTED", call)


CASES: Final[dict[str, Case]] = {
    case.__name__: case
    for case in (
        empty_unary,
        large_unary,
        client_streaming,
        server_streaming,
        ping_pong,
        empty_stream,
        timeout_on_sleeping_server,
        cancel_after_begin,
        cancel_after_first_response,
        custom_metadata,
        status_code_and_message,
        special_status_message,
        unimplemented_method,
        unimplemented_service,
    )
}
