"""What a follower has to say to one leader, over one connection.

Everything that is ready when the next request leaves is in it: the positions of all partitions that an answer
of the leader brought forward are acknowledged by one message, not by one each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice
from typing import Final

from quorate.core.ids import ReplicaKey
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
        #: there is nothing to say
        self.is_empty = False

    def name(self, key: ReplicaKey) -> None:
        if self._stopped:
            self._stopped.pop(key, None)
        self._ready[key] = None
        self.is_empty = False

    def stop(self, key: ReplicaKey) -> None:
        self._ready.pop(key, None)
        self._stopped[key] = None
        self.is_empty = False

    def next_request(self) -> ReplicateRequest | None:
        """None: all that was ready is no longer wanted."""
        request, is_wanted = ReplicateRequest(), False
        if self._hello is not None:
            request.hello.CopyFrom(self._hello)
            self._hello, is_wanted = None, True
        positions = request.positions
        for key in self._take_ready():
            position = self._position_of(key)
            if position is not None:
                positions.append(position)
                is_wanted = True
        if self._stopped:
            for key in self._stopped:
                request.stopped.add(topic_id=key.topic_id, partition=key.partition)
            self._stopped.clear()
            is_wanted = True
        self.is_empty = not self._ready
        return request if is_wanted else None

    def _take_ready(self) -> Iterable[ReplicaKey]:
        """As many as one request takes."""
        if len(self._ready) <= _POSITIONS_PER_REQUEST_MAX:
            ready, self._ready = self._ready, {}
            return ready
        keys = list(islice(self._ready, _POSITIONS_PER_REQUEST_MAX))
        for key in keys:
            del self._ready[key]
        return keys
