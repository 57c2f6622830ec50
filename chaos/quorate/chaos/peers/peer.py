"""What a drill needs of another system: three nodes that can be killed, and clients.

A topic with partitions is asked for, and a peer says which of its own things stand for them. Offsets begin
at 0 and have no gaps, as ours; a peer whose numbers begin elsewhere counts from there. Only what clients see
is looked at: files and metadata are each system's own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Final, NamedTuple, Protocol

from quorate.chaos.live.load import Sender
from quorate.core.ids import Offset, TopicPartition
from quorate.core.records import ConsumerRecord

__all__ = ["NO_TIMESTAMP", "Extent", "Peer", "PeerReader", "PeerUnavailable"]

#: of records whose time nobody asks for
NO_TIMESTAMP: Final = -1


class PeerUnavailable(Exception):
    """What is missing to run it, or what it said when it did not start or its client ended."""


class Extent(NamedTuple):
    """Of a log, as its leader tells it."""

    log_start_offset: Offset
    #: exclusive
    high_watermark: Offset


class PeerReader(Protocol):
    async def poll(self) -> Sequence[ConsumerRecord]:
        """What comes next; empty: nothing came for a while. It goes on by itself after an outage."""


class Peer(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def version(self) -> str: ...

    @property
    def settings(self) -> Mapping[str, str]:
        """What was set, or left as it comes, wherever it matters for what is promised."""

    def laid_out(self) -> AbstractAsyncContextManager[None]:
        """Inside, nodes have their directories. On the way out they are killed, and all of it is removed."""

    async def start(self) -> None:
        """All nodes, for the first time or again; returns once each of them serves."""

    async def kill_all(self) -> None:
        """kill -9, of all of them before the first is waited for."""

    async def create_topic(self, topic: str, partitions: int) -> None:
        """With three replicas."""

    async def until_whole(self, topic: str) -> None:
        """Until every partition has a leader, and all of its replicas are in sync."""

    async def extents(self, topic: str) -> Mapping[TopicPartition, Extent]: ...

    def sender(self) -> AbstractAsyncContextManager[Sender]:
        """A producer that asks for the strongest acknowledgement that there is."""

    def reader(self, starts: Mapping[TopicPartition, Offset]) -> AbstractAsyncContextManager[PeerReader]: ...
