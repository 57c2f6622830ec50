"""What a voter serves to the others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Protocol

from quorate.core.logging import get_logger
from quorate.core.transport import Call, Service
from quorate.errors import NotFounded, Overloaded
from quorate.metadata.raft.founding import IdentifyResponse
from quorate.metadata.raft.messages import Envelope
from quorate.metadata.raft.peers import Sender
from quorate.metadata.raft.snapshot_transfer import receive_snapshot
from quorate.metadata.raft.voters import VoterKey
from quorate.metadata.raft.wire import envelope_from_proto, identity_to_proto, key_from_proto
from quorate.v1 import quorum_pb2

__all__ = ["ServedVoter", "quorum_service"]

log = get_logger(__name__)


class ServedVoter(Protocol):
    """The voter behind the service."""

    #: An ordered set of what reads the others' streams. Those never end by themselves: the voter cancels them
    #: when it closes, or a server that stops would wait for them.
    readers: dict[asyncio.Task[None], None]

    @property
    def key(self) -> VoterKey: ...

    @property
    def is_running(self) -> bool:
        """It takes part in the quorum, and takes messages."""
        ...

    def identify(self) -> IdentifyResponse: ...

    def greeted_by(self, peer: Sender) -> None: ...

    def receive(self, envelope: Envelope) -> None: ...


def quorum_service(voter: ServedVoter, *, snapshot_bytes_max: int) -> Service:
    handlers = _Handlers(voter, snapshot_bytes_max)
    return Service(
        quorum_pb2.DESCRIPTOR.services_by_name["QuorumService"],
        {
            "Exchange": handlers.exchange,
            "TransferSnapshot": handlers.transfer_snapshot,
            "Identify": handlers.identify,
        },
        is_internal=True,
    )


class _Handlers:
    def __init__(self, voter: ServedVoter, snapshot_bytes_max: int) -> None:
        self._voter = voter
        self._snapshot_bytes_max = snapshot_bytes_max
        self._is_taking_snapshot = False

    async def exchange(
        self, requests: AsyncIterator[quorum_pb2.ExchangeRequest], call: Call
    ) -> AsyncGenerator[quorum_pb2.ExchangeResponse, None]:
        self._check_running()
        yield quorum_pb2.ExchangeResponse()  # the stream stands
        reader = asyncio.create_task(self._read(requests, call), name="quorum-stream")
        self._voter.readers[reader] = None
        try:
            await asyncio.wait([reader])
            if not reader.cancelled():
                reader.result()
        finally:
            del self._voter.readers[reader]
            reader.cancel()

    async def _read(self, requests: AsyncIterator[quorum_pb2.ExchangeRequest], call: Call) -> None:
        async for request in requests:
            self._receive(request, call)

    def _receive(self, request: quorum_pb2.ExchangeRequest, call: Call) -> None:
        envelope = envelope_from_proto(request)
        if envelope is not None:
            self._voter.receive(envelope)
        elif request.sender_address:
            self._be_greeted(request, call)
        # Else a message of a kind that this version does not know: as good as lost.

    def _be_greeted(self, greeting: quorum_pb2.ExchangeRequest, call: Call) -> None:
        to = key_from_proto(greeting.to)
        if to != self._voter.key:
            # For a directory that this node had before (rule 41); nor will the core hear what follows.
            log.info("stream_for_another_voter", peer=call.peer, to=str(to))
            return
        sender = key_from_proto(greeting.sender)
        self._voter.greeted_by(Sender(sender, greeting.incarnation, greeting.sender_address))

    async def transfer_snapshot(
        self, requests: AsyncIterator[quorum_pb2.TransferSnapshotRequest], _: Call
    ) -> AsyncGenerator[quorum_pb2.TransferSnapshotResponse, None]:
        self._check_running()
        if self._is_taking_snapshot:
            # One at a time: each is held in memory until it is whole.
            raise Overloaded("another snapshot is being taken here at the moment")
        self._is_taking_snapshot = True
        try:
            envelope = await receive_snapshot(requests, bytes_max=self._snapshot_bytes_max)
        finally:
            self._is_taking_snapshot = False
        if envelope.to == self._voter.key:
            self._voter.receive(envelope)
        yield quorum_pb2.TransferSnapshotResponse()

    async def identify(
        self, _request: quorum_pb2.IdentifyRequest, _call: Call
    ) -> quorum_pb2.IdentifyResponse:
        # To anybody, of whatever cluster: it is the one who asks that must not found anything with strangers.
        return identity_to_proto(self._voter.identify())

    def _check_running(self) -> None:
        if not self._voter.is_running:
            raise NotFounded("this voter does not take part in the quorum yet")
