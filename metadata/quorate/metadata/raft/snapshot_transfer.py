"""Moves a snapshot from a leader to a follower, in pieces, over a connection of its own.

Beside the stream of messages, not in it: heartbeats must not wait behind hundreds of megabytes, or the
follower that is being helped would stand for election in the middle of it.

What arrives counts only as a whole: length and checksum are announced first and compared at the end. A
transfer that breaks off leaves nothing behind, and the leader begins another one when it finds out.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from typing import Final

from crc32c import crc32c

from quorate.core.transport import Channel, method_of
from quorate.errors import InvalidRequest
from quorate.metadata.raft.messages import Envelope, SnapshotRequest
from quorate.metadata.raft.wire import snapshot_envelope, transfer_to_proto
from quorate.v1 import quorum_pb2

__all__ = ["receive_snapshot", "send_snapshot"]

_TRANSFER_SNAPSHOT: Final = method_of(
    quorum_pb2.DESCRIPTOR.services_by_name["QuorumService"],
    "TransferSnapshot",
    quorum_pb2.TransferSnapshotRequest,
    quorum_pb2.TransferSnapshotResponse,
)

_PIECE_BYTES: Final = 256 << 10
#: a slower connection than this is as good as none
_BYTES_PER_SECOND_MIN: Final = 1 << 20
_TIMEOUT_S_MIN: Final = 10.0


async def send_snapshot(channel: Channel, envelope: Envelope) -> None:
    """Returns once the other side has all of it; raises ``QuorateError`` where it does not come to that."""
    assert isinstance(envelope.message, SnapshotRequest)
    timeout_s = _TIMEOUT_S_MIN + len(envelope.message.snapshot.data) / _BYTES_PER_SECOND_MIN
    async for _ in channel.stream(_TRANSFER_SNAPSHOT, _pieces(envelope), timeout_s=timeout_s):
        pass


async def _pieces(envelope: Envelope) -> AsyncGenerator[quorum_pb2.TransferSnapshotRequest, None]:
    assert isinstance(envelope.message, SnapshotRequest)
    data = envelope.message.snapshot.data
    yield quorum_pb2.TransferSnapshotRequest(transfer=transfer_to_proto(envelope, checksum=crc32c(data)))
    for start in range(0, len(data), _PIECE_BYTES):
        yield quorum_pb2.TransferSnapshotRequest(data=data[start : start + _PIECE_BYTES])


async def receive_snapshot(
    requests: AsyncIterator[quorum_pb2.TransferSnapshotRequest], *, bytes_max: int
) -> Envelope:
    """The whole message, checked; ``InvalidRequest`` where it is not what was announced."""
    transfer: quorum_pb2.SnapshotTransfer | None = None
    pieces: list[bytes] = []
    received = 0
    async for request in requests:
        if transfer is None:
            transfer = _announced(request, bytes_max)
        received += len(request.data)
        if received > transfer.total_bytes:
            break
        pieces.append(request.data)
    if transfer is None or received != transfer.total_bytes:
        expected = 0 if transfer is None else transfer.total_bytes
        raise InvalidRequest(f"a snapshot of {expected} bytes came with {received}")
    data = b"".join(pieces)
    if crc32c(data) != transfer.checksum:
        raise InvalidRequest(f"the snapshot at {transfer.index} does not match its checksum")
    return snapshot_envelope(transfer, data)


def _announced(request: quorum_pb2.TransferSnapshotRequest, bytes_max: int) -> quorum_pb2.SnapshotTransfer:
    if not request.HasField("transfer"):
        raise InvalidRequest("a snapshot whose first piece does not say what it is")
    if not 0 <= request.transfer.total_bytes <= bytes_max:
        raise InvalidRequest(
            f"a snapshot of {request.transfer.total_bytes} bytes, more than the {bytes_max} that are taken"
        )
    return request.transfer
