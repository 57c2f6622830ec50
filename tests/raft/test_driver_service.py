"""What a voter serves to the others: who may speak, who may greet, and what is dropped."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, cast

import pytest

from quorate.core.transport import StreamHandler
from quorate.errors import NotFounded, Overloaded
from quorate.metadata.raft.entries import Term
from quorate.metadata.raft.founding import IdentifyResponse
from quorate.metadata.raft.messages import Envelope, TimeoutNow
from quorate.metadata.raft.peers import Sender
from quorate.metadata.raft.quorum_service import quorum_service
from quorate.metadata.raft.voters import DirectoryId, NodeId, VoterKey
from quorate.metadata.raft.wire import envelope_to_proto, key_to_proto
from quorate.v1 import quorum_pb2

A = VoterKey(NodeId(1), DirectoryId("a" * 22))
B = VoterKey(NodeId(2), DirectoryId("b" * 22))
B_BEFORE = VoterKey(NodeId(2), DirectoryId("c" * 22))

MESSAGE = Envelope(A, B, 1, TimeoutNow(Term(3)))
#: field 1000 of the message: a kind that this version does not know, with nothing in it
UNKNOWN_KIND = b"\xc2\x3e\x00"


class Voter:
    """Notes what it is told."""

    key = B

    def __init__(self, *, is_running: bool = True) -> None:
        self.is_running = is_running
        self.readers: dict[asyncio.Task[None], None] = {}
        self.greetings: list[Sender] = []
        self.received: list[Envelope] = []

    def identify(self) -> IdentifyResponse:
        raise NotImplementedError

    def greeted_by(self, peer: Sender) -> None:
        self.greetings.append(peer)

    def receive(self, envelope: Envelope) -> None:
        self.received.append(envelope)


class FromAnywhere:
    peer = "a:1"

    def remaining_s(self) -> float:
        return 1.0

    def when_over(self, callback: Callable[[], None]) -> None:
        pass


def handler_of(voter: Voter, name: str) -> StreamHandler[Any, Any]:
    service = quorum_service(voter, snapshot_bytes_max=1000)
    return cast(
        "StreamHandler[Any, Any]", {method.name: each for method, each in service.handlers.items()}[name]
    )


async def nothing() -> AsyncIterator[Any]:
    for request in list[Any]():
        yield request


async def exchange(voter: Voter, *requests: quorum_pb2.ExchangeRequest) -> None:
    async def stream() -> AsyncIterator[quorum_pb2.ExchangeRequest]:
        for request in requests:
            yield quorum_pb2.ExchangeRequest.FromString(request.SerializeToString())

    async for _ in handler_of(voter, "Exchange")(stream(), FromAnywhere()):
        pass


def greeting(to: VoterKey) -> quorum_pb2.ExchangeRequest:
    return quorum_pb2.ExchangeRequest(
        sender=key_to_proto(A), to=key_to_proto(to), incarnation=4, sender_address="a:1"
    )


def of_a_newer_version() -> quorum_pb2.ExchangeRequest:
    request = quorum_pb2.ExchangeRequest(sender=key_to_proto(A), to=key_to_proto(B), incarnation=4)
    return quorum_pb2.ExchangeRequest.FromString(request.SerializeToString() + UNKNOWN_KIND)


async def test_greeting_tells_where_a_peer_is() -> None:
    voter = Voter()
    await exchange(voter, greeting(B), envelope_to_proto(MESSAGE))
    assert voter.greetings == [Sender(A, 4, "a:1")]
    assert voter.received == [MESSAGE]


async def test_greeting_for_an_earlier_directory_is_no_greeting() -> None:
    voter = Voter()
    await exchange(voter, greeting(B_BEFORE))
    assert voter.greetings == []


async def test_message_of_an_unknown_kind_is_dropped_and_not_taken_for_a_greeting() -> None:
    voter = Voter()
    await exchange(voter, greeting(B), of_a_newer_version(), envelope_to_proto(MESSAGE))
    assert len(voter.greetings) == 1, "a second one, from nowhere, would close the stream to the peer"
    assert voter.received == [MESSAGE]


@pytest.mark.parametrize("method", ["Exchange", "TransferSnapshot"])
async def test_voter_that_does_not_take_part_yet_says_so(method: str) -> None:
    handler = handler_of(Voter(is_running=False), method)
    with pytest.raises(NotFounded):
        await anext(handler(nothing(), FromAnywhere()))


async def test_one_snapshot_is_taken_at_a_time() -> None:
    handler = handler_of(Voter(), "TransferSnapshot")
    asked = asyncio.Event()

    async def endless() -> AsyncIterator[Any]:
        asked.set()
        await asyncio.get_running_loop().create_future()
        yield None

    async def take(requests: AsyncIterator[Any]) -> Sequence[Any]:
        return [each async for each in handler(requests, FromAnywhere())]

    first = asyncio.create_task(take(endless()))
    await asked.wait()
    with pytest.raises(Overloaded):
        await take(nothing())
    first.cancel()
    await asyncio.wait([first])
