"""The question that an idle query asks: each answer is a leader's, and whatever else happens is no answer."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from quorate.chaos.models.producer.simulated_brokers import service_of
from quorate.client.listed_offsets import LeaderQuestion
from quorate.core.ids import PartitionId, TopicName, TopicPartition
from quorate.core.transport import Call, Server
from quorate.errors import FencedLeaderEpoch, Overloaded, Unavailable
from quorate.pipeline.source import direct_ends
from quorate.pipeline.source.direct_ends import DirectEnds
from quorate.rpc.error_detail import detail_from_error
from quorate.rpc.lean.blocking_connection import BlockingConnection
from quorate.rpc.lean.transport import LeanTransport
from quorate.v1 import broker_pb2

KEPT_S = 3_600.0


class Leader:
    """Of one partition each; says what it is told to."""

    def __init__(self, number: int) -> None:
        self.partition = TopicPartition(TopicName("t"), PartitionId(number))
        self.result = broker_pb2.ListOffsetsPartitionResult(offset=0)
        self.failure: Exception | None = None
        self.requests: list[broker_pb2.ListOffsetsRequest] = []
        self.peers: set[str] = set()
        self._server: Server | None = None
        self.address = "127.0.0.1:0"

    async def start(self) -> None:
        self._server = await LeanTransport().serve(self.address, [service_of({"ListOffsets": self.answer})])
        self.address = self._server.address

    async def stop(self) -> None:
        assert self._server is not None
        await self._server.stop(0)

    async def answer(self, request: Any, call: Call) -> broker_pb2.ListOffsetsResponse:
        self.requests.append(request)
        self.peers.add(call.peer)
        if self.failure is not None:
            raise self.failure
        return broker_pb2.ListOffsetsResponse(partitions=[self.result])

    @property
    def question(self) -> LeaderQuestion:
        asked = broker_pb2.ListOffsetsPartition(topic="t", topic_id="id", current_leader_epoch=4)
        request = broker_pb2.ListOffsetsRequest(partitions=[asked])
        return LeaderQuestion(self.address, [self.partition], request)


@asynccontextmanager
async def leaders(count: int = 3) -> AsyncIterator[list[Leader]]:
    made = [Leader(number) for number in range(count)]
    for each in made:
        await each.start()
    try:
        yield made
    finally:
        for each in made:
            await each.stop()


def ends_of(*, kept_s: float = KEPT_S, clock: Callable[[], float] = time.monotonic) -> DirectEnds:
    return DirectEnds(kept_s=kept_s, rng=random.Random(1), clock=clock)


async def ask(ends: DirectEnds) -> list[int] | None:
    found = await asyncio.to_thread(ends.ask)
    return None if found is None else [found[each] for each in sorted(found)]


async def test_every_leader_is_asked_each_time_over_the_same_connection() -> None:
    async with leaders() as all_leaders:
        ends = ends_of()
        ends.keep([each.question for each in all_leaders])
        for n in range(5):
            for each in all_leaders:
                each.result.offset = n + each.partition.partition
            assert await ask(ends) == [n, n + 1, n + 2]
        for each in all_leaders:
            assert each.requests == [each.question.request] * 5
            assert len(each.peers) == 1


async def test_nothing_is_asked_that_was_not_kept_or_not_for_long() -> None:
    async with leaders(1) as (leader,):
        ends = ends_of()
        assert await ask(ends) is None
        ends.keep([])
        assert await ask(ends) is None
        brief = ends_of(kept_s=0.0)
        brief.keep([leader.question])
        assert await ask(brief) is None
        assert leader.requests == []


async def test_a_refusal_is_no_answer_and_the_question_is_not_asked_again() -> None:
    async with leaders() as all_leaders:
        ends = ends_of()
        questions = [each.question for each in all_leaders]
        ends.keep(questions)
        moved = all_leaders[1]
        moved.result = broker_pb2.ListOffsetsPartitionResult(
            error=detail_from_error(FencedLeaderEpoch("it leads in epoch 5"))
        )
        assert await ask(ends) is None
        assert await ask(ends) is None
        assert len(moved.requests) == 1
        moved.result = broker_pb2.ListOffsetsPartitionResult(offset=7)
        ends.keep(questions)
        assert await ask(ends) == [0, 7, 0]


async def test_an_answer_to_something_else_is_none() -> None:
    async with leaders(2) as (first, second):
        ends = ends_of()
        ends.keep([first.question, second.question._replace(partitions=[])])
        assert await ask(ends) is None


@pytest.mark.parametrize("trouble", ["gone", "overloaded"])
async def test_after_trouble_only_the_ordinary_way_is_left_for_a_while(trouble: str) -> None:
    now = 100.0
    async with leaders(2) as (first, second):
        ends = ends_of(clock=lambda: now)
        questions = [first.question, second.question]
        ends.keep(questions)
        assert await ask(ends) == [0, 0]
        if trouble == "gone":
            await second.stop()
        else:
            second.failure = Overloaded("not now")
        assert await ask(ends) is None
        if trouble == "gone":
            await second.start()
        second.failure = None
        ends.keep(questions)
        assert await ask(ends) is None
        now += 1.0
        ends.keep(questions)
        assert await ask(ends) == [0, 0]
        now += 1.0
        ends.keep([first.question])
        assert await ask(ends) == [0]


class DeadAddress:
    """In place of a connection: it never comes about."""

    deadlines: list[float]

    def __init__(self, address: str, *, deadline: float) -> None:
        self.deadlines.append(deadline)
        raise Unavailable(f"cannot connect to {address}")


async def test_leaders_that_stay_dead_are_tried_ever_more_rarely(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DeadAddress, "deadlines", [], raising=False)
    monkeypatch.setattr(direct_ends, "BlockingConnection", DeadAddress)
    now = 0.0
    ends = ends_of(kept_s=1.0, clock=lambda: now)
    questions = [Leader(number).question for number in range(4)]
    while now < 3_600.0:
        ends.keep(questions)
        assert ends.ask() is None
        now += 1.0
    # A wait of a second at most each time: one in a minute is what is left of them.
    assert 60 <= len(DeadAddress.deadlines) <= 130


async def test_after_an_answer_the_next_trouble_is_a_new_one() -> None:
    now = 0.0
    async with leaders(1) as (leader,):
        ends = ends_of(clock=lambda: now)
        for _ in range(5):
            leader.failure = Overloaded("not now")
            ends.keep([leader.question])
            assert await ask(ends) is None
            leader.failure = None
            now += 1.0
            ends.keep([leader.question])
            assert await ask(ends) == [0]


async def test_connecting_and_all_answers_have_one_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[float] = []

    class Watched(BlockingConnection):
        def __init__(self, address: str, *, deadline: float) -> None:
            given.append(deadline)
            super().__init__(address, deadline=deadline)

        def begin(self, *args: Any, deadline: float) -> Any:
            given.append(deadline)
            return super().begin(*args, deadline=deadline)

        def end(self, *args: Any, deadline: float) -> Any:
            given.append(deadline)
            return super().end(*args, deadline=deadline)

    monkeypatch.setattr(direct_ends, "BlockingConnection", Watched)
    async with leaders(3) as all_leaders:
        ends = ends_of()
        ends.keep([each.question for each in all_leaders])
        assert await ask(ends) == [0, 0, 0]
    assert len(given) == 9
    assert len(set(given)) == 1
