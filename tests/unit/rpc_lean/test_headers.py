"""Headers: packed, unpacked, remembered, and what gRPC says in them."""

from __future__ import annotations

import math

import pytest
from hpack import Decoder, Encoder
from hypothesis import given
from hypothesis import strategies as st

from quorate.rpc.lean.faults import ConnectionFault, StreamFault
from quorate.rpc.lean.grpc_headers import (
    ending,
    metadata_of,
    parse_timeout,
    request_head,
    request_headers,
    response_head,
    status_trailers,
    text_timeout,
)
from quorate.rpc.lean.header_codec import HeaderDecoder, HeaderEncoder, HeaderList
from quorate.rpc.lean.header_rules import Role, check, content_length
from quorate.rpc.lean.status import Status, StatusCode

METHOD = "/quorate.test.EchoService/Echo"


def of_call(timeout_s: float | None = 1.0) -> tuple[tuple[bytes, bytes], ...]:
    return request_headers(METHOD, "host:1", b"http", timeout_s)


# ---- HPACK


def test_headers_that_repeat_are_unpacked_once() -> None:
    encoder, decoder = HeaderEncoder(), HeaderDecoder(16_384)
    seen = [decoder.decode(encoder.encode(of_call())) for _ in range(4)]
    assert [each.headers for each in seen] == [of_call()] * 4
    assert seen[2] is seen[3]


def test_deadlines_do_not_make_the_tables_forget() -> None:
    encoder, decoder = HeaderEncoder(), HeaderDecoder(16_384)
    for _ in range(2):
        decoder.decode(encoder.encode(of_call(1.0)))
    before = decoder.decode(encoder.encode(of_call(1.0)))
    decoder.decode(encoder.encode(of_call(2.0)))
    assert decoder.decode(encoder.encode(of_call(1.0))) is before


@given(
    st.lists(
        st.tuples(st.sampled_from([b"a", b"b", b"grpc-timeout"]), st.sampled_from([b"", b"1", b"x" * 900])),
        max_size=6,
    ).map(tuple),
    st.data(),
)
def test_what_is_remembered_is_what_would_be_packed_and_unpacked(
    first: tuple[tuple[bytes, bytes], ...], draw: st.DataObject
) -> None:
    """Against the package alone, in both directions, while the table changes its size and its entries."""
    ours, theirs = HeaderEncoder(), Encoder()
    our_decoder, their_decoder = HeaderDecoder(1 << 20), Decoder()
    for _ in range(8):
        size = draw.draw(st.sampled_from([None, None, 0, 100, 4096]))
        if size is not None:
            ours.allow_table_bytes(size)
        headers = draw.draw(st.sampled_from([first, first[:1], ((b"c", b"2"),)]))
        assert tuple(their_decoder.decode(ours.encode(headers), raw=True)) == headers
        assert our_decoder.decode(theirs.encode(headers)).headers == headers


def test_table_of_the_peers_size_is_used() -> None:
    encoder = HeaderEncoder()
    encoder.allow_table_bytes(0)
    encoder.allow_table_bytes(0)
    decoder = Decoder()
    decoder.max_allowed_table_size = 0
    assert tuple(decoder.decode(encoder.encode(of_call()), raw=True)) == of_call()


@pytest.mark.parametrize(
    "block", [b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", b"\x80", b"\x40\x7f", b"\xc8"]
)
def test_block_that_is_none_ends_the_connection(block: bytes) -> None:
    with pytest.raises(ConnectionFault):
        HeaderDecoder(16_384).decode(block)


# ---- rules


GOOD = ((b":method", b"POST"), (b":scheme", b"http"), (b":path", b"/x"))


@pytest.mark.parametrize(
    ("headers", "role"),
    [
        (GOOD[:2], Role.REQUEST),
        ((*GOOD, (b":path", b"/y")), Role.REQUEST),
        ((*GOOD, (b"x", b"1"), (b":authority", b"y")), Role.REQUEST),
        ((*GOOD, (b":status", b"200")), Role.REQUEST),
        ((*GOOD, (b"Upper", b"1")), Role.REQUEST),
        ((*GOOD, (b"", b"1")), Role.REQUEST),
        ((*GOOD, (b"x", b"a\r\nb: c")), Role.REQUEST),
        ((*GOOD, (b"x", b" a")), Role.REQUEST),
        ((*GOOD, (b"x", b"a\t")), Role.REQUEST),
        ((*GOOD, (b"connection", b"close")), Role.REQUEST),
        ((*GOOD, (b"te", b"gzip")), Role.REQUEST),
        ((*GOOD[:2], (b":path", b"")), Role.REQUEST),
        (((b":status", b"200"),), Role.TRAILERS),
        (((b"x", b"1"),), Role.RESPONSE),
    ],
)
def test_malformed_headers_break_their_stream(headers: tuple[tuple[bytes, bytes], ...], role: Role) -> None:
    with pytest.raises(StreamFault):
        check(HeaderList(headers), role)


def test_message_of_a_status_may_begin_and_end_with_blanks() -> None:
    check(HeaderList(((b"grpc-status", b"2"), (b"grpc-message", b" why "))), Role.TRAILERS)


def test_content_length_is_a_number() -> None:
    assert content_length(GOOD) is None
    assert content_length(((b"content-length", b"12"),)) == 12
    assert content_length(((b"content-length", b"12"),) * 2) == 12
    with pytest.raises(StreamFault):
        content_length(((b"content-length", b"5"), (b"content-length", b"7")))
    for wrong in (b"", b"-1", b"1x", b"1" * 30):
        with pytest.raises(StreamFault):
            content_length(((b"content-length", wrong),))


# ---- gRPC's own


@given(st.floats(min_value=1e-6, max_value=1e7))
def test_deadline_is_told_a_little_later_rather_than_sooner(timeout_s: float) -> None:
    told = parse_timeout(text_timeout(timeout_s))
    assert told is not None
    assert timeout_s <= told + 1e-9
    assert told <= timeout_s * 1.011 + 1e-6


@pytest.mark.parametrize(
    ("value", "seconds"),
    [(b"1S", 1.0), (b"90M", 5_400.0), (b"2H", 7_200.0), (b"100m", 0.1), (b"5u", 5e-6), (b"1000n", 1e-6)],
)
def test_deadlines_come_in_every_unit(value: bytes, seconds: float) -> None:
    assert parse_timeout(value) == pytest.approx(seconds)


@pytest.mark.parametrize("value", [b"", b"1", b"S", b"-1S", b"123456789S", b"1.5S", b"1s"])
def test_deadline_that_is_none_is_noticed(value: bytes) -> None:
    assert parse_timeout(value) is None
    found = HeaderList((*GOOD, (b"grpc-timeout", value)))
    assert request_head(found).is_timeout_broken


@given(st.text(max_size=60), st.binary(max_size=40), st.sampled_from(list(StatusCode)[1:]))
def test_status_comes_back_as_it_was(message: str, details: bytes, code: StatusCode) -> None:
    message = message.encode("utf-8", "replace").decode()
    trailers = status_trailers(Status(code, message, details), (("x-bin", b"\x00\xff"), ("y", b"z")))
    for _, value in trailers:
        assert value.isascii()
        assert value.decode().isprintable()
    found = ending(HeaderList(trailers))
    assert found.status == Status(code, message, details)
    assert found.metadata == (("x-bin", b"\x00\xff"), ("y", b"z"))


def test_status_that_nobody_knows_is_unknown() -> None:
    for number in (b"99", b"x", b""):
        assert ending(HeaderList(((b"grpc-status", number),))).status.code is StatusCode.UNKNOWN


@pytest.mark.parametrize(
    ("content_type", "expected"),
    [
        (b"application/grpc", True),
        (b"application/grpc+proto", True),
        (b"application/grpc;charset=utf-8", True),
        (b"application/grpcx", False),
        (b"text/html", False),
    ],
)
def test_content_type_tells_grpc_from_the_rest(content_type: bytes, expected: bool) -> None:
    found = HeaderList(((b":status", b"200"), (b"content-type", content_type)))
    assert response_head(found).is_grpc is expected


def test_size_of_the_table_that_changes_all_the_time_is_noted_once() -> None:
    """A peer could set it ten times a second and never make this side send a header."""
    encoder, decoder = HeaderEncoder(), HeaderDecoder(16 << 10)
    headers = ((b"name", b"value"),)
    decoder.decode(encoder.encode(headers))
    for _ in range(1_000):
        encoder.allow_table_bytes(0)
        encoder.allow_table_bytes(4096)
    block = encoder.encode(headers)
    assert len(block) < 40
    assert decoder.decode(block).headers == headers


def test_block_that_stands_for_a_lot_is_not_remembered() -> None:
    packer, decoder = Encoder(), HeaderDecoder(1 << 20)
    large = [("large", "x" * 3_000)]
    decoder.decode(packer.encode(large))
    first = packer.encode(large * 2)
    assert decoder.decode(first) is not decoder.decode(first)


def test_binary_values_that_were_joined_are_taken_apart() -> None:
    found = HeaderList(((b"x-bin", b"AQ,Ag=="), (b"x", b"a,b")))
    assert metadata_of(found) == (("x-bin", b"\x01"), ("x-bin", b"\x02"), ("x", b"a,b"))


@pytest.mark.parametrize("number", [b"1_0", b"+1", b" 5", b"", b"99"])
def test_status_that_is_no_number_of_one_is_unknown(number: bytes) -> None:
    assert ending(HeaderList(((b"grpc-status", number),))).status.code is StatusCode.UNKNOWN


def test_timeout_without_an_end_is_the_longest_there_is() -> None:
    assert text_timeout(math.inf) == b"99999999H"
