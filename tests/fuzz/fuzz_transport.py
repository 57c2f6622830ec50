"""Coverage-guided search for bytes that break the lean transport: frames, header blocks, gRPC's messages.

    python -m tests.fuzz.fuzz_transport -max_total_time=60          a minute
    python -m tests.fuzz.fuzz_transport -max_total_time=3600 DIR    an hour; DIR keeps what it learns
    python -m tests.fuzz.fuzz_transport crash-...                   one input again

The first byte of an input says what to do with the rest. Whatever it is, it has to mean the same in one
piece and in many, and end in a fault that has a name or in none. Anything else that is raised, an invariant
that does not hold, ten seconds without an answer or a gigabyte of memory ends the search, and libFuzzer
writes the input to a file.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any, Final

import atheris  # type: ignore[import-untyped]
from hpack import Decoder, Encoder, HPACKError

# Compiled code shows nothing of its branches to a search.
os.environ.setdefault("QUORATE_CODEC", "pure")

with atheris.instrument_imports(include=["quorate.rpc.lean", "hpack"]):
    from quorate.rpc.lean.connection import Connection
    from quorate.rpc.lean.header_codec import HeaderDecoder
    from quorate.rpc.lean.messages import BrokenMessage, MessageReader, MessageTooLarge
    from quorate.rpc.lean.wire import message_prefix

from quorate.rpc.lean.faults import ConnectionFault
from quorate.rpc.lean.frames import Flag, FrameType, settings_frame, window_update_frame
from quorate.rpc.lean.limits import Limits
from quorate.rpc.lean.settings import LocalSettings
from tests.fuzz.searching import search
from tests.unit.rpc_lean.peers import HELLO, REQUEST, Recorder, data, frame, request_headers

#: of headers unpacked, and of messages; small, so that a search meets it
BYTES_MAX: Final = 2_000
#: streams that a client has opened before its server says anything
STREAMS: Final = 2


class PiecesDisagree(Exception):
    """The same bytes meant something else when they came in pieces."""


def pieces(content: bytes, size: int) -> Iterator[bytes]:
    return (content[at : at + size] for at in range(0, len(content), size))


# --- what the first byte chooses from


def as_a_client(rest: bytes) -> None:
    """What a client sends, after its greeting."""
    compare_conversations(HELLO + rest[1:], rest[0], is_client=False)


def as_a_server(rest: bytes) -> None:
    """What a server sends, after its greeting."""
    compare_conversations(settings_frame() + rest[1:], rest[0], is_client=True)


def compare_conversations(content: bytes, size: int, *, is_client: bool) -> None:
    whole = conversation([content], is_client=is_client)
    cut = conversation(pieces(content, size % 61 + 1), is_client=is_client)
    if whole != cut:
        raise PiecesDisagree(f"{whole} in one piece, {cut} in pieces of {size % 61 + 1}")


def conversation(parts: Any, *, is_client: bool) -> tuple[Any, ...]:
    """What was told to the owner, and what was answered."""
    recorder, rest = Recorder(), b""
    connection = Connection(
        is_client=is_client,
        settings=LocalSettings(streams_max=4),
        limits=Limits(header_list_bytes_max=BYTES_MAX),
        acceptor=recorder,
        now=0.0,
    )
    if is_client:
        for _ in range(STREAMS):
            connection.open(recorder).send_headers(((b":method", b"POST"),))
    for part in parts:
        content = rest + part
        rest = content[connection.receive(memoryview(content), 0.0) :]
        connection.validate()
    fault = connection.fault
    answered = b"".join(connection.take_output())
    return joined(recorder.events), None if fault is None else fault.code, answered


def joined(events: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """DATA is passed on as it arrives: what follows each other is one."""
    told: list[tuple[Any, ...]] = []
    for event in events:
        if event[0] == "data" and told and told[-1][0] == "data":
            told[-1] = ("data", told[-1][1] + event[1])
        else:
            told.append(event)
    return told


def as_header_blocks(rest: bytes) -> None:
    """Blocks of one connection, each behind its length. With a memory they mean what they do without one."""
    ours, plain = HeaderDecoder(BYTES_MAX), Decoder(BYTES_MAX)
    at = 0
    while at < len(rest):
        block = rest[at + 1 : at + 1 + rest[at]]
        at += 1 + rest[at]
        try:
            expected = tuple((bytes(name), bytes(value)) for name, value in plain.decode(block, raw=True))
        except HPACKError:
            expected = None
        try:
            found = ours.decode(block).headers
        except ConnectionFault:
            found = None
        if found != expected:
            raise PiecesDisagree(f"{expected} without a memory, {found} with one")
        if expected is None:
            return


def as_messages(rest: bytes) -> None:
    size = rest[0] % 17 + 1
    whole, cut = messages([rest[1:]]), messages(pieces(rest[1:], size))
    if whole != cut:
        raise PiecesDisagree(f"{whole} in one piece, {cut} in pieces of {size}")


def messages(parts: Any) -> tuple[list[bytes], str]:
    reader = MessageReader(BYTES_MAX)
    found: list[bytes] = []
    try:
        for part in parts:
            # One by one: what came before a broken one counts.
            found.extend(bytes(message) for message in reader.feed(memoryview(part)))
            if reader.collected_bytes > BYTES_MAX + 5:
                raise PiecesDisagree(f"{reader.collected_bytes} bytes are held of a message")
    except (BrokenMessage, MessageTooLarge) as error:
        return found, type(error).__name__
    return found, f"{reader.collected_bytes} bytes of another"


WAYS: Final = (as_a_client, as_a_server, as_header_blocks, as_messages)
REST_BYTES_MIN: Final = 2


def test_one_input(content: bytes) -> None:
    if len(content) > REST_BYTES_MIN:
        WAYS[content[0] % len(WAYS)](content[1:])


def seeds() -> Iterator[bytes]:
    """Conversations as they should be; libFuzzer makes others of them."""
    message = message_prefix(5) + b"hello"
    answer = Encoder().encode([(":status", "200"), ("content-type", "application/grpc")])
    trailers = Encoder().encode([("grpc-status", "0", True)])
    yield (
        bytes([0, 7])
        + request_headers(1)
        + data(message, 1, ends=True)
        + window_update_frame(1, 70_000)
        + frame(FrameType.PING, bytes(8))
        + request_headers(3, flags=Flag.END_HEADERS | Flag.END_STREAM)
        + frame(FrameType.RST_STREAM, bytes([0, 0, 0, 8]), stream_id=3)
        + settings_frame([(4, 100), (5, 20_000)])
    )
    yield (
        bytes([1, 7])
        + frame(FrameType.HEADERS, answer, flags=Flag.END_HEADERS, stream_id=1)
        + data(message, 1)
        + frame(FrameType.HEADERS, trailers, flags=Flag.END_HEADERS | Flag.END_STREAM, stream_id=1)
        + frame(FrameType.GOAWAY, bytes(8))
    )
    block = Encoder().encode(list(REQUEST))
    again = Encoder().encode(list(REQUEST), huffman=False)
    yield bytes([2]) + b"".join(bytes([len(each)]) + each for each in (block, again, block, block))
    yield bytes([3, 3]) + message * 3 + message_prefix(4_000)


if __name__ == "__main__":
    search("transport", test_one_input, seeds())
