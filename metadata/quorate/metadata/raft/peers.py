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
from collections.abc import Callable
from typing import Final

from quorate.core.clock import Clock
from quorate.core.transport import Transport
from quorate.metadata.raft.messages import Envelope, SnapshotRequest
from quorate.metadata.raft.peer_stream import PeerStream, Sender
from quorate.metadata.raft.voters import VoterKey, Voters

__all__ = ["Peers", "Sender"]

#: peers that were never voters but spoke to us: enough for those that are being added
_STRANGERS_MAX: Final = 16


class Peers:
    """Every peer by its key. Streams to voters are kept open; to others they open with the first message."""

    def __init__(self, transport: Transport, clock: Clock, sender: Sender, *, redial_s_max: float) -> None:
        self._transport = transport
        self._clock = clock
        self._sender = sender
        self._redial_s_max = redial_s_max
        self._tasks: asyncio.TaskGroup | None = None
        self._on_gone: Callable[[VoterKey], None] = lambda _peer: None
        self._streams: dict[VoterKey, PeerStream] = {}
        self._voting: frozenset[VoterKey] = frozenset()
        #: where voters, and those that are about to be, are reached; the latest stranger last
        self._addresses: dict[VoterKey, str] = {}
        #: the latest incarnation that opened a stream to us
        self._incarnations: dict[VoterKey, int] = {}

    async def run(self, *, on_gone: Callable[[VoterKey], None]) -> None:
        """Until cancelled. Before that, and after, messages are dropped.

        ``on_gone``: called when the process of a peer that was connected seems to have ended.
        """
        self._on_gone = on_gone
        async with asyncio.TaskGroup() as self._tasks:
            try:
                for key in sorted(self._voting):
                    self._stream_to(key)
                await asyncio.get_running_loop().create_future()
            finally:
                self._tasks = None
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

    def _stream_to(self, key: VoterKey) -> PeerStream | None:
        stream = self._streams.get(key)
        address = self._addresses.get(key)
        if stream is not None or self._tasks is None or address is None:
            return stream
        stream = PeerStream(
            self._transport,
            self._clock,
            self._sender,
            key=key,
            address=address,
            redial_s_max=self._redial_s_max,
            on_gone=self._on_gone,
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
