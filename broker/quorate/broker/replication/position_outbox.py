"""What a follower has to say to one leader, over one connection.

Everything that is ready when the next request leaves is in it: the positions of all partitions that an answer
of the leader brought forward are acknowledged by one message, not by one each.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from quorate.core.ids import ReplicaKey
from quorate.v1.controller_pb2 import ReplicaName
from quorate.v1.replica_pb2 import FollowerHello, FollowerPosition, ReplicateRequest

__all__ = ["PositionOutbox"]

#: A position takes some 60 bytes: far below the largest message, and a turn of the loop at the leader.
_POSITIONS_PER_REQUEST_MAX: Final = 2_000


class PositionOutbox:
    """Bounded by the number of partitions: each stands in it once."""

    def __init__(
        self, hello: FollowerHello, position_of: Callable[[ReplicaKey], FollowerPosition | None]
    ) -> None:
        """``position_of`` is asked when the request leaves; None: no longer wanted."""
        self._hello: FollowerHello | None = hello
        self._position_of = position_of
        #: ordered sets
        self._ready: dict[ReplicaKey, None] = {}
        self._stopped: dict[ReplicaKey, None] = {}

    @property
    def is_empty(self) -> bool:
        return not self._ready and self._hello is None and not self._stopped

    def name(self, key: ReplicaKey) -> None:
        self._stopped.pop(key, None)
        self._ready[key] = None

    def stop(self, key: ReplicaKey) -> None:
        self._ready.pop(key, None)
        self._stopped[key] = None

    def next_request(self) -> ReplicateRequest | None:
        """None: all that was ready is no longer wanted."""
        keys = list(self._ready)
        del keys[_POSITIONS_PER_REQUEST_MAX:]
        for key in keys:
            del self._ready[key]
        positions = [position for key in keys if (position := self._position_of(key)) is not None]
        stopped = [ReplicaName(topic_id=key.topic_id, partition=key.partition) for key in self._stopped]
        hello, self._hello = self._hello, None
        self._stopped.clear()
        if hello is None and not positions and not stopped:
            return None
        return ReplicateRequest(hello=hello, positions=positions, stopped=stopped)
