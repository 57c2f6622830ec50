"""The end of a stream as the peer tells it, and what may still come after it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quorate.rpc.lean.faults import ConnectionFault, StreamFault
from quorate.rpc.lean.frames import ErrorCode

if TYPE_CHECKING:
    from quorate.rpc.lean.connection import Connection
    from quorate.rpc.lean.stream import Stream

__all__ = ["check_unwanted", "end_remote"]


def check_unwanted(connection: Connection, stream_id: int) -> None:
    """Something came on a stream that is not, or no longer, there."""
    if connection.is_idle(stream_id):
        raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "something of a stream that was never opened")
    if not connection.is_late(stream_id):
        raise ConnectionFault(ErrorCode.STREAM_CLOSED, "something of a stream that has ended")


def end_remote(stream: Stream) -> None:
    """The peer has sent all that it is going to send."""
    if stream.content_bytes_left:
        raise StreamFault(ErrorCode.PROTOCOL_ERROR, "less data than content-length")
    stream.is_remote_ended = True
    listener = stream.listener
    if stream.is_local_ended:
        stream.connection.forget(stream)
    listener.on_end()
