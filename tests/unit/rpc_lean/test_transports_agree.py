"""The same random calls through grpcio and through the lean transport, each as client and as server.

Whatever a caller can see has to be the same: answers, errors with their facts, statuses and trailers. Only
the words of errors that the transport itself makes (not the handler) may differ, and they are left out; so is
the number of a request, which each process counts by itself.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from typing import Any, TypeAlias

import grpc
import pytest
from google.protobuf.wrappers_pb2 import BytesValue, StringValue

from quorate.core.transport import CallKind, Channel, Method, Transport
from quorate.errors import ERRORS_BY_CODE, QuorateError, UnknownServerError
from quorate.rpc.grpcio_transport import GrpcioOptions, GrpcioTransport
from quorate.rpc.lean.channel import LeanChannel
from quorate.rpc.lean.transport import LeanOptions, LeanTransport
from quorate.rpc.status_errors import DETAILS_KEY
from tests.unit.rpc_lean.agreeing import CALLS, SEEDS
from tests.unit.seams.echo_service import CHAT, COUNT, ECHO, FAIL, WAIT, EchoServer, text

AMPLE_S = 30.0
BYTES_MAX = 300_000
SIZES = (0, 1, 5, 1_000, 16_379, 16_380, 65_535, 65_536, 200_000, 299_990, 400_000)
NO_METHOD: Method[Any, Any] = Method(
    "/quorate.test.EchoService/Nothing", CallKind.UNARY, BytesValue, BytesValue
)

#: what became of a call, in a form that can be compared
Outcome: TypeAlias = tuple[Any, ...]
Script: TypeAlias = Callable[[Channel], Any]


def grpcio() -> Transport:
    return GrpcioTransport(GrpcioOptions(message_bytes_max=BYTES_MAX))


def lean() -> Transport:
    return LeanTransport(LeanOptions(message_bytes_max=BYTES_MAX))


PAIRS = {
    "grpcio to grpcio": (grpcio, grpcio),
    "grpcio to lean": (grpcio, lean),
    "lean to grpcio": (lean, grpcio),
    "lean to lean": (lean, lean),
}


# ---- what is called


def echo(rng: random.Random) -> Script:
    value = rng.randbytes(rng.choice(SIZES))
    return lambda channel: unary(channel, ECHO, BytesValue(value=value))


def fail(rng: random.Random) -> Script:
    how = rng.choice([*ERRORS_BY_CODE, "crash", "timeout"])
    return lambda channel: unary(channel, FAIL, text(how))


def broken_body(rng: random.Random) -> Script:
    content = rng.randbytes(rng.randrange(1, 50))
    return lambda channel: unary(channel, FAIL, BytesValue(value=b"\xff" + content))


def no_method(_rng: random.Random) -> Script:
    return lambda channel: unary(channel, NO_METHOD, BytesValue())


def late(_rng: random.Random) -> Script:
    return lambda channel: unary(channel, WAIT, text("x"), timeout_s=0.05)


def count(rng: random.Random) -> Script:
    numbers = [str(rng.randrange(50)) for _ in range(rng.randrange(4))]
    return lambda channel: stream(channel, COUNT, numbers)


def chat(rng: random.Random) -> Script:
    said = [rng.choice(["a", "ü" * 10, "x" * 20_000]) for _ in range(rng.randrange(8))]
    said += rng.choice([[], [], ["fail"], ["crash"], ["fail", "more"]])
    return lambda channel: stream(channel, CHAT, said)


KINDS = (echo, echo, echo, fail, fail, broken_body, no_method, late, count, chat, chat)


async def unary(
    channel: Channel, method: Method[Any, Any], request: Any, *, timeout_s: float = AMPLE_S
) -> Outcome:
    try:
        return ("answer", await channel.call(method, request, timeout_s=timeout_s))
    except QuorateError as error:
        return as_outcome(error)


async def stream(channel: Channel, method: Method[Any, Any], said: list[str]) -> Outcome:
    async def requests() -> AsyncIterator[StringValue]:
        for each in said:
            yield text(each)

    answers: list[str] = []
    try:
        async for response in channel.stream(method, requests(), timeout_s=AMPLE_S):
            answers.append(response.value)  # noqa: PERF401 - what came before an error counts
    except QuorateError as error:
        return (*answers, *as_outcome(error))
    return (*answers, "end")


def as_outcome(error: QuorateError) -> Outcome:
    facts = {key: value for key, value in error.facts.items() if key not in ("address", "request_id")}
    is_the_transports = "grpc_status" in facts
    message = error.message.removesuffix(str(error.facts.get("request_id", "")))
    return (
        type(error).__name__,
        "" if is_the_transports else message,
        tuple(sorted(facts.items(), key=str)),
    )


# ---- comparing


@pytest.mark.parametrize("seed", SEEDS)
async def test_callers_see_the_same_over_every_pair_of_transports(seed: int) -> None:
    outcomes = {}
    for name, (client, server) in PAIRS.items():
        rng = random.Random(seed)
        scripts = [rng.choice(KINDS)(rng) for _ in range(CALLS)]
        serving = await server().serve("127.0.0.1:0", [EchoServer().service])
        channel = client().connect(serving.address)
        one_by_one = [await script(channel) for script in scripts[: CALLS // 2]]
        at_once = await asyncio.gather(*(script(channel) for script in scripts[CALLS // 2 :]))
        outcomes[name] = [*one_by_one, *at_once]
        await channel.close()
        await serving.stop(0)
    expected = outcomes.pop("grpcio to grpcio")
    for name, found in outcomes.items():
        for number, (ours, theirs) in enumerate(zip(found, expected, strict=True)):
            assert ours == theirs, f"seed {seed}, call {number}, {name}"


async def test_statuses_and_trailers_are_the_same_over_every_pair_of_transports() -> None:
    async with AsyncExitStack() as stack:
        addresses = []
        for server in (grpcio, lean):
            serving = await server().serve("127.0.0.1:0", [EchoServer().service])
            stack.push_async_callback(serving.stop, 0)
            addresses.append(serving.address)
        for how in sorted(ERRORS_BY_CODE):
            seen = [
                await look(address, text(how))
                for look in (through_grpcio, through_lean)
                for address in addresses
            ]
            assert seen == [seen[0]] * 4


Seen: TypeAlias = tuple[str, str, bytes]


async def through_grpcio(address: str, request: StringValue) -> Seen:
    async with grpc.aio.insecure_channel(address) as channel:
        start: Any = channel.unary_unary(FAIL.path)
        call = start(request.SerializeToString())
        trailers = dict(await call.trailing_metadata())
        return (await call.code()).name, await call.details(), trailers[DETAILS_KEY]


async def through_lean(address: str, request: StringValue) -> Seen:
    channel = LeanChannel(address, LeanOptions())
    call = await channel.ended_call(FAIL, request, timeout_s=AMPLE_S)
    await channel.close()
    assert call.status is not None
    return call.status.code.name, call.status.message, call.status.details


@pytest.mark.parametrize("pair", PAIRS)
async def test_handler_that_answers_with_nothing_has_failed(pair: str) -> None:
    client, server = PAIRS[pair]
    serving = await server().serve("127.0.0.1:0", [EchoServer().service])
    channel = client().connect(serving.address)
    with pytest.raises(UnknownServerError):
        await channel.call(FAIL, text("nothing"), timeout_s=AMPLE_S)
    await channel.close()
    await serving.stop(0)
