"""What a call of a client tells its server while the answer arrives."""

from __future__ import annotations

from google.protobuf.wrappers_pb2 import BytesValue
from hpack import Encoder

from quorate.rpc.lean.client_call import UnaryClientCall
from quorate.rpc.lean.connection import Connection
from quorate.rpc.lean.frames import Flag, FrameType, settings_frame
from quorate.rpc.lean.limits import Limits
from quorate.rpc.lean.settings import LocalSettings
from tests.unit.rpc_lean.fed_server import prefixed
from tests.unit.rpc_lean.peers import Recorder, data, frame, frames_in
from tests.unit.seams.echo_service import ECHO

WINDOW = 10_000


class Answered:
    """A client's connection with one call on it, whose answer has begun."""

    def __init__(self) -> None:
        self._connection = Connection(
            is_client=True,
            settings=LocalSettings(window_bytes=WINDOW),
            limits=Limits(),
            acceptor=Recorder(),
            now=0.0,
        )
        self.call = UnaryClientCall(ECHO, 1 << 20, lambda: None)
        self.call.stream = self._connection.open(self.call)
        headers = Encoder().encode([(":status", "200"), ("content-type", "application/grpc")])
        self.windows_opened_by(settings_frame([]))
        self.windows_opened_by(
            frame(FrameType.HEADERS, headers, flags=Flag.END_HEADERS, stream_id=self.call.stream.id)
        )

    def windows_opened_by(self, arrived: bytes) -> list[int]:
        connection = self._connection
        connection.take_output()
        assert connection.receive(memoryview(arrived), 0.0) == len(arrived)
        sent = frames_in(b"".join(connection.take_output()))
        return [
            int.from_bytes(each.content)
            for each in sent
            if each.kind == FrameType.WINDOW_UPDATE and each.stream_id
        ]


def test_window_is_not_opened_for_the_rest_of_a_frame_that_has_begun() -> None:
    """It was counted when the frame began. The server would be woken for nothing."""
    answered = Answered()
    message = BytesValue(value=b"x" * (WINDOW - 100))
    arriving = data(prefixed(message), 1)
    for at in range(0, len(arriving), 1_000):
        assert answered.windows_opened_by(arriving[at : at + 1_000]) == []
    assert answered.call.response == message


def test_window_is_opened_for_what_lacks_of_a_message_beyond_the_frame_that_has_begun() -> None:
    answered = Answered()
    message = BytesValue(value=b"x" * (3 * WINDOW))
    content = prefixed(message)
    first = data(content[:WINDOW], 1)
    assert answered.windows_opened_by(first[:5_000]) == [len(content) - WINDOW]
    assert answered.windows_opened_by(first[5_000:]) == []
    assert answered.windows_opened_by(data(content[WINDOW:], 1)) == []
    assert answered.call.response == message
