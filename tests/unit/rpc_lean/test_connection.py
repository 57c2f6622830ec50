"""HTTP/2 without a socket: what h2spec does not look at, or not from the inside."""

from __future__ import annotations

import struct

import pytest
from hpack import Encoder

from quorate.rpc.lean.connection import Connection
from quorate.rpc.lean.frames import (
    PREFACE,
    ErrorCode,
    Flag,
    FrameType,
    goaway_frame,
    header_frames,
    settings_frame,
    window_update_frame,
)
from quorate.rpc.lean.limits import Limits
from quorate.rpc.lean.settings import LocalSettings
from tests.unit.rpc_lean.peers import HELLO, Recorder, Wire, data, frame, frames_in, request_headers

WHOLE_REQUEST = Flag.END_HEADERS | Flag.END_STREAM


def client() -> tuple[Connection, Recorder]:
    recorder = Recorder()
    connection = Connection(
        is_client=True, settings=LocalSettings(), limits=Limits(), acceptor=recorder, now=0.0
    )
    return connection, recorder


def frame_content(content: bytes) -> bytes:
    [found] = frames_in(content)
    return found.content


def response_headers(headers: tuple[tuple[str, str], ...], *, ends: bool = False) -> bytes:
    """Of stream 1, in a block of its own, which touches no table."""
    block = Encoder().encode([(name, value, True) for name, value in headers])
    flags = Flag.END_HEADERS | (Flag.END_STREAM if ends else 0)
    return frame(FrameType.HEADERS, block, flags=flags, stream_id=1)


def receive(connection: Connection, content: bytes) -> None:
    assert connection.receive(memoryview(content), 0.0) == len(content)


# ---- receiving


def test_request_arrives_whole_in_whatever_pieces_it_comes() -> None:
    content = HELLO + request_headers(1) + data(b"hello ", 1) + data(b"world", 1, ends=True)
    for size in (1, 2, 3, 7, 50, len(content)):
        wire = Wire(hello=b"")
        for at in range(0, len(content), size):
            wire.send(content[at : at + size])
        events = wire.events
        assert events[0][:2] == ("stream", 1)
        assert b"".join(event[1] for event in events if event[0] == "data") == b"hello world"
        assert events[-1] == ("end",)


def test_padding_is_no_part_of_the_data_and_its_room_is_given_back_at_once() -> None:
    wire = Wire(window_bytes=1_000)
    padded = frame(FrameType.DATA, b"\x64" + b"abc" + bytes(100), flags=Flag.PADDED, stream_id=1)
    for at in range(len(padded)):
        split = Wire()
        split.send(request_headers(1) + padded[:at])
        split.send(padded[at:] + data(b"d", 1, ends=True))
        received = b"".join(event[1] for event in split.events if event[0] == "data")
        assert received == b"abcd"
    [opened] = wire.exchange(request_headers(1) + padded)
    assert (opened.kind, opened.content) == (FrameType.WINDOW_UPDATE, struct.pack(">I", 101))
    [stream] = wire.recorder.streams
    assert stream.receive_window == 1_000 - 3
    assert stream.held_bytes == 3
    # Until then it counts, as all that is in a frame.
    [refused] = wire.exchange(frame(FrameType.DATA, b"\xff" + bytes(997), flags=Flag.PADDED, stream_id=1))
    assert refused.code is ErrorCode.FLOW_CONTROL_ERROR


def test_window_of_a_stream_opens_as_its_owner_consumes() -> None:
    wire = Wire(window_bytes=1_000)
    assert wire.exchange(request_headers(1) + data(bytes(900), 1)) == []
    [stream] = wire.recorder.streams
    stream.consumed(400)
    assert wire.answers() == [], "not for every little bit"
    stream.consumed(500)
    [opened] = wire.answers()
    assert (opened.kind, opened.stream_id, opened.content) == (
        FrameType.WINDOW_UPDATE,
        1,
        struct.pack(">I", 900),
    )


def test_window_opens_for_a_message_that_would_not_fit_and_shrinks_back_after_it() -> None:
    wire = Wire(window_bytes=1_000)
    wire.send(request_headers(1))
    [stream] = wire.recorder.streams
    stream.expect(5_000)
    [opened] = wire.answers()
    assert opened.content == struct.pack(">I", 4_000)
    wire.send(data(bytes(5_000), 1))
    stream.consumed(5_000)
    [opened] = wire.answers()
    assert opened.content == struct.pack(">I", 1_000)


def test_data_of_a_stream_that_this_side_has_reset_is_passed_over() -> None:
    wire = Wire()
    wire.send(request_headers(1))
    [stream] = wire.recorder.streams
    stream.reset(ErrorCode.CANCEL)
    wire.answers()
    assert wire.exchange(data(b"late", 1, ends=True)) == []
    assert wire.connection.fault is None


def test_something_late_of_a_stream_too_old_to_be_remembered_is_passed_over() -> None:
    """A connection may have more calls at once than it remembers, and all of them be cancelled at once."""
    wire = Wire(streams_max=3_000)
    ids = range(1, 4_001, 2)
    for stream_id in ids:
        wire.send(request_headers(stream_id))
    for stream in wire.recorder.streams:
        stream.reset(ErrorCode.CANCEL)
    wire.answers()
    for stream_id in ids:
        assert wire.exchange(data(b"late", stream_id)) == []
    assert wire.exchange(request_headers(1, flags=WHOLE_REQUEST)) == []
    assert wire.connection.fault is None


def test_number_that_was_passed_over_is_no_old_stream() -> None:
    wire = Wire()
    wire.send(request_headers(1, flags=WHOLE_REQUEST) + request_headers(5, flags=WHOLE_REQUEST))
    [goaway] = wire.exchange(request_headers(3))
    assert goaway.code is ErrorCode.PROTOCOL_ERROR


def test_stream_that_depends_on_itself_leaves_no_header_block_unread() -> None:
    """HPACK's tables would no longer be the same, and another's request be taken for something else."""
    wire = Wire()
    priority = struct.pack(">IB", 1, 0)
    block = frame_content(request_headers(1))
    flags = Flag.END_HEADERS | Flag.PRIORITY
    [goaway] = wire.exchange(frame(FrameType.HEADERS, priority + block, flags=flags, stream_id=1))
    assert goaway.code is ErrorCode.PROTOCOL_ERROR
    assert wire.events == []


@pytest.mark.parametrize(
    "content",
    [
        response_headers((("content-type", "application/grpc"),)),
        response_headers(((":status", "100"),), ends=True),
        data(b"x", 1),
        response_headers(((":status", "200"),)) + response_headers((("grpc-status", "0"),)),
        response_headers(((":status", "200"),)) + response_headers(((":status", "200"),), ends=True),
    ],
    ids=["no status", "no response", "data first", "trailers that end nothing", "a second response"],
)
def test_answer_that_is_none_resets_its_stream_and_nothing_else(content: bytes) -> None:
    connection, recorder = client()
    receive(connection, settings_frame())
    connection.open(recorder).send_headers(((b":path", b"/x"),))
    receive(connection, content)
    assert connection.fault is None
    assert recorder.events[-1][:2] == ("lost", ErrorCode.PROTOCOL_ERROR)
    assert not connection.streams


# ---- sending


def test_data_waits_for_the_peers_window_and_leaves_in_order() -> None:
    wire = Wire(hello=PREFACE + settings_frame([(4, 10)]))
    wire.send(request_headers(1, flags=WHOLE_REQUEST))
    [stream] = wire.recorder.streams
    stream.send(b"0123456", b"789abcdef", Flag.END_STREAM)
    assert [(each.content, each.flags) for each in wire.answers()] == [(b"0123456789", 0)]
    assert not stream.is_drained
    rest = wire.exchange(window_update_frame(1, 100))
    assert [(each.content, each.flags) for each in rest] == [(b"abcdef", Flag.END_STREAM)]
    assert stream.is_drained


def test_data_goes_out_in_frames_that_the_peer_allows_and_the_last_one_ends_the_stream() -> None:
    wire = Wire()
    wire.send(request_headers(1, flags=WHOLE_REQUEST))
    [stream] = wire.recorder.streams
    wire.events  # noqa: B018 - taken, so that only what follows is seen
    stream.send(b"x" * 5, b"y" * 40_000, Flag.END_STREAM)
    frames = wire.answers()
    assert [len(each.content) for each in frames] == [16_384, 16_384, 7_237]
    assert b"".join(each.content for each in frames) == b"x" * 5 + b"y" * 40_000
    assert [each.flags for each in frames] == [0, 0, Flag.END_STREAM]
    assert wire.events == [("drained",)]
    assert not wire.connection.streams


def test_streams_that_wait_for_the_connections_window_take_turns() -> None:
    """In the order in which they began to wait for nothing else: the first needs its own window before."""
    wire = Wire()
    wire.send(request_headers(1, flags=WHOLE_REQUEST) + request_headers(3, flags=WHOLE_REQUEST))
    first, second = wire.recorder.streams
    first.send(bytes(65_535), b"")
    wire.answers()
    first.send(bytes(1_000), b"")
    second.send(bytes(1_000), b"")
    assert wire.answers() == []
    sent = wire.exchange(window_update_frame(1, 5_000) + window_update_frame(0, 1_500))
    assert [(each.stream_id, len(each.content)) for each in sent] == [(3, 1_000), (1, 500)]
    sent = wire.exchange(window_update_frame(0, 500))
    assert [(each.stream_id, len(each.content)) for each in sent] == [(1, 500)]


def test_who_fills_what_may_leave_at_once_is_last_the_next_time() -> None:
    windows = PREFACE + settings_frame([(4, 1 << 30), (5, 1 << 20)]) + window_update_frame(0, 1 << 30)
    wire = Wire(hello=windows)
    wire.send(b"".join(request_headers(stream_id, flags=WHOLE_REQUEST) for stream_id in (1, 3)))
    wire.connection.set_writable(is_writable=False)
    for stream in wire.recorder.streams:
        stream.send(bytes(5), bytes(3 << 20))
    sent = []
    for _ in range(4):
        wire.connection.set_writable(is_writable=True)
        sent.append([each.stream_id for each in wire.answers()])
    assert sent == [[1], [3], [1], [3]]


def test_nothing_of_a_stream_is_handed_to_a_socket_that_takes_no_more() -> None:
    wire = Wire()
    wire.send(request_headers(1, flags=WHOLE_REQUEST))
    [stream] = wire.recorder.streams
    wire.connection.set_writable(is_writable=False)
    stream.send(b"hello", b"")
    assert wire.answers() == []
    assert not stream.is_drained
    wire.connection.set_writable(is_writable=True)
    assert [each.content for each in wire.answers()] == [b"hello"]
    assert stream.is_drained


def test_one_turn_does_not_collect_more_than_it_may() -> None:
    windows = PREFACE + settings_frame([(4, 1 << 30)]) + window_update_frame(0, 1 << 30)
    wire = Wire(hello=windows)
    wire.send(request_headers(1, flags=WHOLE_REQUEST))
    [stream] = wire.recorder.streams
    while stream.is_drained:
        stream.send(bytes(10_000), b"")
    assert wire.connection.output_bytes < 1 << 20


def test_peer_that_allows_the_largest_frames_does_not_get_them() -> None:
    """What is written of a message lies with the socket until it is taken."""
    windows = [(4, 1 << 30), (5, (1 << 24) - 1)]
    wire = Wire(hello=PREFACE + settings_frame(windows) + window_update_frame(0, 1 << 30))
    wire.send(request_headers(1, flags=WHOLE_REQUEST))
    [stream] = wire.recorder.streams
    stream.send(bytes(5), bytes(12 << 20))
    assert 0 < wire.connection.output_bytes <= 2 << 20


def test_smaller_window_of_the_peer_may_leave_less_than_nothing() -> None:
    wire = Wire()
    wire.send(request_headers(1, flags=WHOLE_REQUEST))
    [stream] = wire.recorder.streams
    stream.send(bytes(1_000), b"")
    wire.answers()
    wire.send(settings_frame([(4, 500)]))
    assert stream.send_window == -500
    wire.answers()
    stream.send(b"x", b"")
    assert wire.answers() == []
    assert [each.content for each in wire.exchange(window_update_frame(1, 501))] == [b"x"]


def test_large_headers_are_spread_over_frames() -> None:
    frames = frames_in(header_frames(bytes(40_000), 1, ends_stream=True, frame_bytes_max=16_384))
    assert [each.kind for each in frames] == [
        FrameType.HEADERS,
        FrameType.CONTINUATION,
        FrameType.CONTINUATION,
    ]
    assert [each.flags for each in frames] == [Flag.END_STREAM, 0, Flag.END_HEADERS]
    assert b"".join(each.content for each in frames) == bytes(40_000)


# ---- the end


def test_server_that_goes_away_finishes_what_it_has_and_takes_nothing_new() -> None:
    wire = Wire()
    wire.send(request_headers(1))
    wire.connection.go_away("stopping")
    [goaway] = wire.answers()
    assert struct.unpack_from(">II", goaway.content) == (1, ErrorCode.NO_ERROR)
    assert wire.exchange(request_headers(3) + data(b"x", 1, ends=True)) == []
    assert [event[:2] for event in wire.events] == [("stream", 1), ("data", b"x"), ("end",)]


@pytest.mark.parametrize(
    "more",
    [
        data(b"x", 3, ends=True),
        frame(FrameType.RST_STREAM, bytes(4), stream_id=3),
        window_update_frame(3, 100),
        request_headers(3, flags=WHOLE_REQUEST),
    ],
    ids=["data", "a reset", "a window", "trailers"],
)
def test_request_that_crosses_a_goaway_harms_no_call_under_way(more: bytes) -> None:
    wire = Wire()
    wire.send(request_headers(1))
    wire.connection.go_away("stopping")
    wire.answers()
    assert wire.exchange(request_headers(3) + more + data(b"x", 1, ends=True)) == []
    assert wire.connection.fault is None
    assert [event[:2] for event in wire.events] == [("stream", 1), ("data", b"x"), ("end",)]


def test_last_goaway_does_not_take_back_what_an_earlier_one_said() -> None:
    wire = Wire()
    wire.send(request_headers(1))
    wire.connection.go_away("stopping")
    wire.answers()
    [goaway] = wire.exchange(request_headers(3) + frame(FrameType.PUSH_PROMISE, bytes(8), stream_id=3))
    assert struct.unpack_from(">II", goaway.content) == (1, ErrorCode.PROTOCOL_ERROR)


def test_client_loses_the_streams_that_a_leaving_server_has_not_seen() -> None:
    connection, recorder = client()
    receive(connection, settings_frame())
    for _ in range(2):
        connection.open(recorder).send_headers(((b":path", b"/x"),))
    receive(connection, goaway_frame(1, ErrorCode.NO_ERROR, ""))
    assert recorder.events == [("lost", ErrorCode.REFUSED_STREAM, "the server is stopping"), ("goaway",)]
    assert list(connection.streams) == [1]
    assert connection.is_used_up


@pytest.mark.parametrize(
    "content",
    [
        frame(FrameType.PUSH_PROMISE, bytes(8), stream_id=1),
        settings_frame([(2, 1)]),
        request_headers(2),
        data(b"x", 5),
    ],
    ids=["push promise", "push enabled", "a stream of the server", "no such stream"],
)
def test_server_that_does_what_no_server_may_is_left(content: bytes) -> None:
    connection, recorder = client()
    receive(connection, settings_frame())
    connection.open(recorder).send_headers(((b":path", b"/x"),))
    receive(connection, content)
    assert connection.fault is not None
    # Without a code: what was wrong with the connection says nothing of what became of the call.
    assert recorder.events[-1][:2] == ("lost", None)
    assert connection.receive(memoryview(b"anything"), 0.0) == 8, "nothing is read after it"


def test_priority_of_a_wrong_size_resets_no_stream_that_nobody_has_opened() -> None:
    wire = Wire()
    [refusal] = wire.exchange(frame(FrameType.PRIORITY, b"abc", stream_id=9))
    assert (refusal.kind, refusal.code) == (FrameType.GOAWAY, ErrorCode.FRAME_SIZE_ERROR)
    opened = Wire()
    opened.exchange(request_headers(9))
    [refusal] = opened.exchange(frame(FrameType.PRIORITY, b"abc", stream_id=9))
    assert (refusal.kind, refusal.code) == (FrameType.RST_STREAM, ErrorCode.FRAME_SIZE_ERROR)
