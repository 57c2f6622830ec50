"""The ways to the other voters: one ordered stream to each, and snapshots beside it.

A stream only carries messages one way; answers come on the stream that the peer opens in turn. So there is
no waiting for each other, and a link that fails in one direction fails in one direction only, which is what
the protocol is made for.

Raft copes with lost messages and suffers from late ones: a queue that outlives its connection would deliver
heartbeats of the past. So what waits when a stream breaks is dropped, what is sent while there is none is
dropped, and the queue is bounded in number and in bytes.

Each attempt dials on a new channel. A channel's own way back after a failure waits longer and longer, and
cannot be told what we know: that a peer which opens a stream to us with a new incarnation has just started,
and that whatever we still hold of a connection to its predecessor is dead (``greeted_by``). For that, a
stream begins with a greeting, a request without a message, which also says where the sender is reached: a
voter that was added lately is not yet known to all.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final

from quorate.core.clock import Clock
from quorate.core.logging import get_logger
from quorate.core.transport import Transport, method_of
from quorate.errors import QuorateError
from quorate.metadata.raft.messages import AppendRequest, Envelope, SnapshotRequest
from quorate.metadata.raft.snapshot_transfer import send_snapshot
from quorate.metadata.raft.voters import VoterKey, Voters
from quorate.metadata.raft.wire import envelope_to_proto, key_to_proto
from quorate.v1 import quorum_pb2

__all__ = ["Peers", "Sender"]

log = get_logger(__name__)

_EXCHANGE: Final = method_of(
    quorum_pb2.DESCRIPTOR.services_by_name["QuorumService"],
    "Exchange",
    quorum_pb2.ExchangeRequest,
    quorum_pb2.ExchangeResponse,
)

_QUEUE_MESSAGES_MAX: Final = 1_000
_QUEUE_BYTES_MAX: Final = 64 << 20
_REDIAL_S_MIN: Final = 0.01
_NOTICE_WAIT_S: Final = 0.003
#: peers that were never voters but spoke to us: enough for those that are being added
_STRANGERS_MAX: Final = 16


@dataclass(frozen=True, slots=True)
class Sender:
    """Who this node is to its peers."""

    key: VoterKey
    incarnation: int
    address: str


class Peers:
    """Every peer by its key. Streams to voters are kept open; to others they open with the first message."""

    def __init__(self, transport: Transport, clock: Clock, sender: Sender, *, redial_s_max: float) -> None:
        self._transport = transport
        self._clock = clock
        self._sender = sender
        self._redial_s_max = redial_s_max
        self._tasks: asyncio.TaskGroup | None = None
        self._streams: dict[VoterKey, _PeerStream] = {}
        self._voting: frozenset[VoterKey] = frozenset()
        #: where voters, and those that are about to be, are reached; the latest stranger last
        self._addresses: dict[VoterKey, str] = {}
        #: the latest incarnation that opened a stream to us
        self._incarnations: dict[VoterKey, int] = {}

    async def run(self) -> None:
        """Until cancelled. Before that, and after, messages are dropped."""
        async with asyncio.TaskGroup() as self._tasks:
            try:
                await asyncio.get_running_loop().create_future()
            finally:
                tasks, self._tasks = self._tasks, None
                assert tasks is not None
                for key in list(self._streams):
                    self._close(key)

    def voters_changed(self, voters: Voters) -> None:
        """Keep streams to exactly these open."""
        current = {voter.key: voter.address for voter in voters if voter.key != self._sender.key}
        for key in list(self._streams):
            if key not in current or self._streams[key].address != current[key]:
                self._close(key)
        self._voting = frozenset(current)
        self._addresses.update(current)
        for key in current:
            self._stream_to(key)

    def learn_address(self, key: VoterKey, address: str) -> None:
        """Of a peer that is not among the voters; where those are, the log says."""
        if key in self._voting:
            return
        stream = self._streams.get(key)
        if stream is not None and stream.address != address:
            self._close(key)
        self._addresses.pop(key, None)
        self._addresses[key] = address
        self._forget_strangers()

    def address_of(self, key: VoterKey) -> str | None:
        return self._addresses.get(key)

    def greeted_by(self, peer: Sender) -> None:
        """It has opened a stream to us."""
        self.learn_address(peer.key, peer.address)
        known = self._incarnations.get(peer.key, 0)
        if known >= peer.incarnation:
            return
        self._incarnations[peer.key] = peer.incarnation
        stream = self._streams.get(peer.key)
        # Not where the first connection of both stands already: only what leads to a predecessor is dead.
        if stream is not None and (known > 0 or not stream.is_connected):
            stream.redial()

    def send(self, envelope: Envelope) -> None:
        """Never waits; what cannot be sent now is dropped."""
        stream = self._streams.get(envelope.to) or self._stream_to(envelope.to)
        if stream is None:
            return
        if isinstance(envelope.message, SnapshotRequest):
            stream.send_snapshot(envelope)
        else:
            stream.send(envelope)

    def _stream_to(self, key: VoterKey) -> _PeerStream | None:
        stream = self._streams.get(key)
        address = self._addresses.get(key)
        if stream is not None or self._tasks is None or address is None:
            return stream
        stream = _PeerStream(
            self._transport,
            self._clock,
            self._sender,
            key=key,
            address=address,
            redial_s_max=self._redial_s_max,
        )
        self._streams[key] = stream
        stream.start(self._tasks)
        return stream

    def _close(self, key: VoterKey) -> None:
        self._streams.pop(key).stop()

    def _forget_strangers(self) -> None:
        strangers = [key for key in self._addresses if key not in self._voting]
        for key in strangers[:-_STRANGERS_MAX]:
            del self._addresses[key]
            self._incarnations.pop(key, None)
            if key in self._streams:
                self._close(key)


class _PeerStream:
    def __init__(
        self,
        transport: Transport,
        clock: Clock,
        sender: Sender,
        *,
        key: VoterKey,
        address: str,
        redial_s_max: float,
    ) -> None:
        self._transport = transport
        self._clock = clock
        self._key = key
        self.address = address
        self._greeting = quorum_pb2.ExchangeRequest(
            sender=key_to_proto(sender.key),
            to=key_to_proto(key),
            incarnation=sender.incarnation,
            sender_address=sender.address,
        )
        self._redial_s_max = redial_s_max
        self.is_connected = False
        #: None: there is no connection, nor one in the making
        self._outbox: _Outbox | None = None
        self._tasks: asyncio.TaskGroup | None = None
        self._stream_task: asyncio.Task[None] | None = None
        self._snapshot_task: asyncio.Task[None] | None = None

    def start(self, tasks: asyncio.TaskGroup) -> None:
        self._tasks = tasks
        self._outbox = _Outbox(self._greeting, self._clock)
        self._stream_task = tasks.create_task(self._keep_open(), name=f"stream-to-{self._key.node_id}")

    def stop(self) -> None:
        for task in (self._stream_task, self._snapshot_task):
            if task is not None:
                task.cancel()
        self._tasks = None
        self._outbox = None

    def redial(self) -> None:
        """The connection, if there is one, leads to a process that is gone."""
        if self._stream_task is not None and self._tasks is not None:
            self._stream_task.cancel()
            self.is_connected = False
            self.start(self._tasks)

    def send(self, envelope: Envelope) -> None:
        if self._outbox is not None:
            self._outbox.put(envelope)

    def send_snapshot(self, envelope: Envelope) -> None:
        """One at a time: the core asks again for what got lost."""
        if self._tasks is not None and (self._snapshot_task is None or self._snapshot_task.done()):
            self._snapshot_task = self._tasks.create_task(
                self._transfer(envelope), name=f"snapshot-to-{self._key.node_id}"
            )

    async def _keep_open(self) -> None:
        pause_s = _REDIAL_S_MIN
        while True:
            outbox = self._outbox = self._outbox or _Outbox(self._greeting, self._clock)
            was_connected = await self._connected(outbox)
            # Who was never there is asked less and less often; who was, at once.
            pause_s = _REDIAL_S_MIN if was_connected else min(pause_s * 2, self._redial_s_max)
            await self._clock.sleep(pause_s)

    async def _connected(self, outbox: _Outbox) -> bool:
        """Returns when the stream has ended: whether it ever stood."""
        was_connected = False
        channel = self._transport.connect(self.address)
        try:
            async with aclosing(channel.stream(_EXCHANGE, outbox, timeout_s=None)) as responses:
                async for _ in responses:
                    was_connected = self.is_connected = True
                    log.info("peer_connected", peer=str(self._key), address=self.address)
        except QuorateError as error:
            event, level = ("peer_lost", log.info) if was_connected else ("peer_unreachable", log.debug)
            level(event, peer=str(self._key), address=self.address, error=str(error))
        finally:
            # Not after a redial, which has begun another one.
            if self._outbox is outbox:
                self._outbox = None
                self.is_connected = False
            await channel.close()
        return was_connected

    async def _transfer(self, envelope: Envelope) -> None:
        message = envelope.message
        assert isinstance(message, SnapshotRequest)
        facts = {
            "peer": str(self._key),
            "index": message.snapshot.id.index,
            "bytes": len(message.snapshot.data),
        }
        log.info("snapshot_transfer_started", **facts)
        channel = self._transport.connect(self.address)
        try:
            await send_snapshot(channel, envelope)
            log.info("snapshot_transfer_finished", **facts)
        except QuorateError as error:
            log.warning("snapshot_transfer_failed", error=str(error), **facts)
        finally:
            await channel.close()


class _Outbox:
    """What waits to be sent on one connection; read by one transport, once.

    A request that says nothing but that the commit index has moved is a *notice*. It waits for a moment:
    under load the next request says the same, and a third of all messages need not be sent.
    """

    def __init__(self, greeting: quorum_pb2.ExchangeRequest, clock: Clock) -> None:
        self._greeting: quorum_pb2.ExchangeRequest | None = greeting
        self._clock = clock
        self._envelopes: deque[tuple[int, Envelope]] = deque()
        self._bytes = 0
        self._reader: asyncio.Future[None] | None = None
        self._notice: Envelope | None = None
        self._is_notice_timed = False
        #: of the last request; heartbeats and read barriers begin a new one
        self._round = -1

    def put(self, envelope: Envelope) -> None:
        message = envelope.message
        if isinstance(message, AppendRequest):
            is_notice = not message.entries and message.round == self._round
            self._round = message.round
            self._notice = envelope if is_notice else None
            if is_notice:
                self._time_notice()
                return
        self._enqueue(envelope)

    def _enqueue(self, envelope: Envelope) -> None:
        size = _size_of(envelope)
        if len(self._envelopes) >= _QUEUE_MESSAGES_MAX or self._bytes + size > _QUEUE_BYTES_MAX:
            return
        self._bytes += size
        self._envelopes.append((size, envelope))
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)

    def _time_notice(self) -> None:
        if not self._is_notice_timed:
            self._is_notice_timed = True
            self._clock.call_later(_NOTICE_WAIT_S, self._release_notice)

    def _release_notice(self) -> None:
        self._is_notice_timed = False
        if self._notice is not None:
            notice, self._notice = self._notice, None
            self._enqueue(notice)

    def __aiter__(self) -> AsyncIterator[quorum_pb2.ExchangeRequest]:
        return self

    async def __anext__(self) -> quorum_pb2.ExchangeRequest:
        if self._greeting is not None:
            greeting, self._greeting = self._greeting, None
            return greeting
        while not self._envelopes:
            self._reader = asyncio.get_running_loop().create_future()
            await self._reader
        size, envelope = self._envelopes.popleft()
        self._bytes -= size
        return envelope_to_proto(envelope)


def _size_of(envelope: Envelope) -> int:
    message = envelope.message
    return sum(len(entry.data) for entry in message.entries) if isinstance(message, AppendRequest) else 0
