"""Where partitions end, asked by the thread that wants to know: the ordinary question, made cheap.

A streaming query with nothing to do asks eighty times a second, and each time anew: Spark promises whoever
calls `processAllAvailable` that all is read that was acknowledged before, so no answer may come from memory.
The ordinary way to ask makes messages, and goes through the event loop of another thread and back. Here the
messages of the last ordinary question are kept and sent again, over connections of this thread's own.

What may be kept, and why:

- The messages name the leader epoch and the topic's id. A broker that does not lead any more, or leads in
  another epoch, or knows the topic by another id, refuses. So an answer is always that of the leader.
- They are kept for a moment only. New partitions are found the ordinary way, which looks at metadata.

Whatever is not an answer for every partition, be it a refusal, a silence or a connection that broke while
nobody asked, is no answer at all: then the question is asked the ordinary way, which knows whom to ask next
and when to give up. After a connection has failed, that stays the only way for a while, and for longer each
time in a row: a broker that cannot be asked like this costs one wait in a while, and not one for each
question. One deadline, from before the first connection to the last answer, bounds that wait, however many
leaders there are and however many of them are dead.

Rejected: the event loop in the asking thread. Between two questions nothing would run it, so a metadata
refresh that nobody waits for would never end, and it saves only a part of it.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from quorate.client.listed_offsets import LIST_OFFSETS, LeaderQuestion
from quorate.core.backoff import Backoff
from quorate.core.ids import TopicPartition
from quorate.errors import QuorateError
from quorate.rpc.lean.blocking_connection import BlockingConnection

__all__ = ["DirectEnds"]

#: of a question, with the connections that it needs: what takes longer is asked the ordinary way
_TIMEOUT_S: Final = 1.0
#: for how long it is asked the ordinary way after that, first and at most: then one wait in a minute is left
_TROUBLE_REMEMBERED_S: Final = 1.0
_TROUBLE_REMEMBERED_S_MAX: Final = 60.0
_NEVER: Final = float("-inf")


class _Kept(NamedTuple):
    address: str
    partitions: Sequence[TopicPartition]
    content: bytes


class DirectEnds:
    """Belongs to one thread. It has as many connections as the last question has leaders."""

    def __init__(
        self, *, kept_s: float, rng: random.Random, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """``kept_s``: how long a question may be asked again without looking at metadata."""
        self._kept_s = kept_s
        self._clock = clock
        self._questions: list[_Kept] = []
        self._until = self._trusted_from = _NEVER
        self._pauses = Backoff(rng, first_s=_TROUBLE_REMEMBERED_S, pause_s_max=_TROUBLE_REMEMBERED_S_MAX)
        self._connections: dict[str, BlockingConnection] = {}

    def keep(self, questions: Sequence[LeaderQuestion]) -> None:
        """They were answered just now, and are asked again by `ask`; none: nothing is."""
        now = self._clock()
        is_trusted = now >= self._trusted_from
        self._until = now + self._kept_s if questions and is_trusted else _NEVER
        self._questions = [
            _Kept(each.address, each.partitions, each.request.SerializeToString()) for each in questions
        ]
        for address in self._connections.keys() - {each.address for each in questions}:
            self._connections.pop(address).close()

    def ask(self) -> dict[TopicPartition, int] | None:
        """None: it has to be asked the ordinary way."""
        if self._clock() >= self._until:
            return None
        try:
            ends = self._answers(time.monotonic() + _TIMEOUT_S)
            self._pauses.reset()
        except QuorateError:
            self._trusted_from = self._clock() + self._pauses.next_s()
            ends = None
        if ends is None:
            self._until = _NEVER
            self._hang_up()
        return ends

    def _answers(self, deadline: float) -> dict[TopicPartition, int] | None:
        # All are asked before the first answer is waited for.
        calls = [
            self._connection(each.address, deadline).begin(LIST_OFFSETS, each.content, deadline=deadline)
            for each in self._questions
        ]
        ends: dict[TopicPartition, int] = {}
        for asked, call in zip(self._questions, calls, strict=True):
            response = self._connections[asked.address].end(call, LIST_OFFSETS, deadline=deadline)
            if len(response.partitions) != len(asked.partitions):
                return None
            for partition, result in zip(asked.partitions, response.partitions, strict=True):
                if not result.HasField("offset"):
                    return None  # it is refused
                ends[partition] = result.offset
        return ends

    def _connection(self, address: str, deadline: float) -> BlockingConnection:
        found = self._connections.get(address)
        if found is None:
            found = self._connections[address] = BlockingConnection(address, deadline=deadline)
        return found

    def _hang_up(self) -> None:
        """On all: answers of the others may be under way."""
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()
