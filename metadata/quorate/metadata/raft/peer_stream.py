"""The stream of messages to one peer: dialled, kept open, dialled again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final

from quorate.core.clock import Clock
from quorate.core.logging import get_logger
from quorate.core.transport import Transport, method_of
from quorate.errors import QuorateError
from quorate.metadata.raft.messages import Envelope, SnapshotRequest
from quorate.metadata.raft.outbox import Outbox
from quorate.metadata.raft.snapshot_transfer import send_snapshot
from quorate.metadata.raft.voters import VoterKey
from quorate.metadata.raft.wire import key_to_proto
from quorate.v1 import quorum_pb2

__all__ = ["PeerStream", "Sender"]

log = get_logger(__name__)

_EXCHANGE: Final = method_of(
    quorum_pb2.DESCRIPTOR.services_by_name["QuorumService"],
    "Exchange",
    quorum_pb2.ExchangeRequest,
    quorum_pb2.ExchangeResponse,
)

_REDIAL_S_MIN: Final = 0.01


@dataclass(frozen=True, slots=True)
class Sender:
    """Who this node is to its peers."""

    key: VoterKey
    incarnation: int
    address: str


class PeerStream:
    def __init__(
        self,
        transport: Transport,
        clock: Clock,
        sender: Sender,
        *,
        key: VoterKey,
        address: str,
        redial_s_max: float,
        on_gone: Callable[[VoterKey], None],
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
        self._on_gone = on_gone
        self.is_connected = False
        #: None: there is no connection, nor one in the making
        self._outbox: Outbox | None = None
        self._tasks: asyncio.TaskGroup | None = None
        self._stream_task: asyncio.Task[None] | None = None
        self._snapshot_task: asyncio.Task[None] | None = None

    def start(self, tasks: asyncio.TaskGroup) -> None:
        self._tasks = tasks
        self._outbox = Outbox(self._greeting, self._clock)
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
        is_lost = False
        while True:
            outbox = self._outbox = self._outbox or Outbox(self._greeting, self._clock)
            began = self._clock.monotonic()
            is_lost = await self._connected(outbox) or is_lost
            was_there = self._clock.monotonic() - began > self._redial_s_max
            # One that has just ended may listen for a moment still; so this is asked again with every redial.
            if is_lost and await self._transport.is_refused(self.address, timeout_s=self._redial_s_max):
                is_lost = False
                self._on_gone(self._key)
            # Who is not there is asked less and less often; who was there for a while, at once.
            pause_s = _REDIAL_S_MIN if was_there else min(pause_s * 2, self._redial_s_max)
            await self._clock.sleep(pause_s)

    async def _connected(self, outbox: Outbox) -> bool:
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
