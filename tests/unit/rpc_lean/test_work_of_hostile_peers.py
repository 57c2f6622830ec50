"""What a peer that means harm can make this side do for a frame: lines of Python that run, counted.

Of the Python that it is, as in ``test_work_per_message``. What matters is that the work does not grow with
what the peer has prepared: streams, or answers for which it leaves no room.
"""

from __future__ import annotations

import pytest

from quorate.rpc.lean.frames import PREFACE, Flag, settings_frame, window_update_frame
from quorate.rpc.lean.limits import Limits
from tests.counted_work import counted_lines
from tests.unit.rpc_lean.compiled_modules import IS_COMPILED
from tests.unit.rpc_lean.peers import HELLO, Wire, request_headers

pytestmark = pytest.mark.skipif(IS_COMPILED, reason="test_compiled counts without the compiled modules")

WHOLE = Flag.END_HEADERS | Flag.END_STREAM
WINDOW_SIZE = 4
#: lines for a frame that has nothing to do with streams
FRAME_LINES_MAX = 150


def wire_with(streams: int, *, hello: bytes = HELLO, answer_bytes: int = 0) -> Wire:
    wire = Wire(Limits(control_frames={}), hello=hello, streams_max=streams)
    wire.send(b"".join(request_headers(2 * n + 1, flags=WHOLE) for n in range(streams)))
    for stream in wire.recorder.streams if answer_bytes else ():
        stream.send(bytes(answer_bytes), b"")
    wire.answers()
    return wire


def lines_for(wire: Wire, content: bytes) -> int:
    with counted_lines() as lines:
        wire.send(content)
    wire.answers()
    assert wire.connection.fault is None
    wire.connection.validate()
    return lines.total()


def test_windows_that_are_set_again_and_again_in_one_frame_are_changed_once() -> None:
    streams = 500
    wire = wire_with(streams)
    again_and_again = settings_frame([(WINDOW_SIZE, size) for size in (*range(31), 1_000)])
    assert lines_for(wire, again_and_again) <= 4 * streams + 2 * FRAME_LINES_MAX
    assert {stream.send_window for stream in wire.recorder.streams} == {1_000}


def test_window_that_stays_as_it_is_costs_nothing_for_each_stream() -> None:
    wire = wire_with(500)
    assert lines_for(wire, settings_frame([(WINDOW_SIZE, 65_535)])) <= FRAME_LINES_MAX


@pytest.mark.parametrize("window", [0, 10], ids=["shut", "open"])
def test_window_of_the_connection_that_opens_byte_by_byte_asks_nobody_in_vain(window: int) -> None:
    """Neither those whose own windows are shut, nor those for whom there is no room after the first."""
    wire = wire_with(500, hello=PREFACE + settings_frame([(WINDOW_SIZE, window)]))
    greedy = wire.recorder.streams[0]
    wire.send(window_update_frame(1, 70_000))
    greedy.send(bytes(65_535), b"")
    wire.answers()
    assert wire.connection.send_window == 0
    for stream in wire.recorder.streams[1:]:
        stream.send(bytes(100), b"")
    assert not wire.answers()
    assert lines_for(wire, window_update_frame(0, 1)) <= FRAME_LINES_MAX


def test_streams_whose_windows_open_are_sent_on_in_turns() -> None:
    wire = wire_with(3, hello=PREFACE + settings_frame([(WINDOW_SIZE, 0)]), answer_bytes=100)
    wire.send(settings_frame([(WINDOW_SIZE, 60)]))
    sent = [(each.stream_id, len(each.content)) for each in wire.answers() if not each.kind]
    assert sent == [(1, 60), (3, 60), (5, 60)]
    wire.send(window_update_frame(3, 40))
    assert [(each.stream_id, len(each.content)) for each in wire.answers()] == [(3, 40)]
