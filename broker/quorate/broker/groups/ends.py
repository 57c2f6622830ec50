"""How far partitions reach, as far as a coordinator has to know: a commit beyond the end is refused.

An offset that nobody has written yet is a mistake of somebody: a client that counts wrong, or offsets of
another topic. Once committed it would make the group skip records that come later, without a word.

The end of what is committed only grows, so an answer is worth keeping: what is below a known end needs no
question. Readers go on, so most commits are beyond what is known; then the leader is asked. There is one
question to a leader at a time, for all partitions that anybody wants to know about, and whoever comes
meanwhile shares the next one: how many questions there are depends on the leaders and not on the commits.
The one under way is of no use to him, since it may have been answered before his records were there.

A partition whose leader cannot be asked is not refused for good: the error says to try again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

from quorate.broker.groups.leader_calls import POSITIONS_MAX, End, LeaderCalls, Position
from quorate.broker.groups.records import TopicIdPartition
from quorate.core.ids import BrokerId, Offset
from quorate.errors import (
    BrokerNotAvailable,
    OffsetNotAvailable,
    OffsetOutOfRange,
    QuorateError,
    UnknownTopicOrPartition,
)

__all__ = ["Ends"]

#: partitions whose ends are kept; each is a small entry
_KNOWN_MAX: Final = 100_000


class Ends:
    def __init__(self, calls: LeaderCalls) -> None:
        self._calls = calls
        #: exclusive ends, the one that was heard of last at the end
        self._known: dict[TopicIdPartition, Offset] = {}
        self._leaders: dict[BrokerId, _Leader] = {}
        self._is_closed = False

    def known(self, key: TopicIdPartition) -> Offset:
        """A lower bound of where the partition ends."""
        return self._known.get(key, Offset(0))

    async def find_unreached(
        self, wanted: Mapping[TopicIdPartition, Offset]
    ) -> dict[TopicIdPartition, QuorateError]:
        """Those that do not reach so far, or are not known to, with the reason."""
        beyond = [Position(key) for key, offset in wanted.items() if offset > self.known(key)]
        if not beyond:
            return {}
        if self._is_closed:
            return {each.key: _not_known(_stopping()) for each in beyond}
        led, nobody = self._calls.by_leader(beyond)
        unreached = {key: _not_known(error) for key, error in nobody.items()}
        asked = {
            position.key: self._leader(leader).ask_about(position.key)
            for leader, positions in led.items()
            for position in positions
        }
        if asked:
            # Not gather: the answers are shared, and one who goes away must not cancel them for the others.
            await asyncio.wait(asked.values())
        for key, answer in asked.items():
            end = answer.result()
            if isinstance(end, QuorateError):
                unreached[key] = _not_known(end)
            elif wanted[key] > end.high_watermark:
                unreached[key] = _out_of_range(key, wanted[key], end)
        return unreached

    async def close(self) -> None:
        """Whoever waits is told that nobody could be asked."""
        self._is_closed = True
        for leader in self._leaders.values():
            await leader.close()
        await self._calls.close()

    def _leader(self, broker_id: BrokerId) -> _Leader:
        leader = self._leaders.get(broker_id)
        if leader is None:
            leader = self._leaders[broker_id] = _Leader(self, self._calls, broker_id)
        return leader

    def learned(self, key: TopicIdPartition, high_watermark: Offset) -> None:
        self._known[key] = max(high_watermark, self._known.pop(key, Offset(0)))
        if len(self._known) > _KNOWN_MAX:
            del self._known[next(iter(self._known))]


class _Leader:
    """One leader, and what is wanted from it."""

    def __init__(self, ends: Ends, calls: LeaderCalls, broker_id: BrokerId) -> None:
        self._ends = ends
        self._calls = calls
        self._broker_id = broker_id
        #: for the next question
        self._wanted: dict[TopicIdPartition, asyncio.Future[End | QuorateError]] = {}
        self._asking: asyncio.Task[None] | None = None

    def ask_about(self, key: TopicIdPartition) -> asyncio.Future[End | QuorateError]:
        """To be waited for, not to be awaited: others share it."""
        future = self._wanted.get(key)
        if future is None:
            future = self._wanted[key] = asyncio.get_running_loop().create_future()
        if self._asking is None:
            self._asking = asyncio.create_task(self._ask(), name=f"ends-of-{self._broker_id}")
        return future

    async def close(self) -> None:
        if self._asking is not None:
            self._asking.cancel()
            await asyncio.wait([self._asking])

    async def _ask(self) -> None:
        """Until nobody wants to know anything."""
        try:
            while self._wanted:
                keys = list(self._wanted)[:POSITIONS_MAX]
                question = {key: self._wanted.pop(key) for key in keys}
                try:
                    answers = await self._calls.ask(self._broker_id, [Position(key) for key in question])
                except asyncio.CancelledError:
                    self._wanted |= question
                    raise
                for (key, future), answer in zip(question.items(), answers, strict=True):
                    if isinstance(answer, End):
                        self._ends.learned(key, answer.high_watermark)
                    future.set_result(answer)
        finally:
            self._asking = None
            for future in self._wanted.values():
                future.set_result(_stopping())
            self._wanted.clear()


def _stopping() -> BrokerNotAvailable:
    return BrokerNotAvailable("this broker is stopping")


def _not_known(error: QuorateError) -> QuorateError:
    """For whoever commits: nothing was done, whatever became of the question, and it may be tried again."""
    if isinstance(error, UnknownTopicOrPartition):
        return error
    return OffsetNotAvailable(
        f"the leader of the partition could not be asked how far it reaches: {error.message}",
        cause=error.code,
    )


def _out_of_range(key: TopicIdPartition, offset: Offset, end: End) -> OffsetOutOfRange:
    return OffsetOutOfRange(
        f"offset {offset} is beyond the end of the partition, which is {end.high_watermark}",
        topic_id=key.topic_id,
        partition=key.partition,
        offset=offset,
        high_watermark=end.high_watermark,
    )
