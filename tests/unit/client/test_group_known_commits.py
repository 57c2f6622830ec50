"""What a consumer takes for committed, and so does not commit again: only what nothing can undo any more."""

from __future__ import annotations

from collections import deque
from typing import Any

import pytest

from quorate.errors import QuorateError
from tests.unit.client.fake_coordinator import GroupCluster, simulate
from tests.unit.client.test_group_commits import poll_offsets, topic_of

T0: Any = ("t", 0)


def test_a_position_is_not_taken_for_committed_while_an_earlier_call_may_undo_it() -> None:
    async def scenario(cluster: GroupCluster) -> None:
        topic_of(cluster, 1, 100)
        async with cluster.member(topics=["t"]) as consumer:
            await poll_offsets(consumer, 10)
            await consumer.commit()
            consumer.commit_async({T0: 5})
            await consumer.commit()
            await cluster.sleep(1)
            assert cluster.committed() == 10

    simulate(scenario)


def test_a_position_is_not_taken_for_committed_after_a_commit_whose_outcome_is_unknown() -> None:
    async def scenario(cluster: GroupCluster) -> None:
        topic_of(cluster, 1, 100)
        async with cluster.member(topics=["t"]) as consumer:
            await poll_offsets(consumer, 10)
            await consumer.commit()
            cluster.lose_answers["CommitOffsets"] = 100
            with pytest.raises(QuorateError):
                await consumer.commit({T0: 5}, timeout=3)
            cluster.lose_answers.clear()
            assert cluster.committed() == 5
            await consumer.commit()
            assert cluster.committed() == 10

    simulate(scenario)


def test_an_answer_that_a_later_call_has_overtaken_does_not_say_what_is_committed() -> None:
    async def scenario(cluster: GroupCluster) -> None:
        topic_of(cluster, 1, 100)
        async with cluster.member(topics=["t"]) as consumer:
            await poll_offsets(consumer, 10)
            cluster.delay_answers["CommitOffsets"] = deque([2.0, 2.0])
            consumer.commit_async({T0: 5})
            await cluster.sleep(1)
            consumer.commit_async({T0: 10})
            await cluster.sleep(2)
            consumer.seek(T0, 5)
            await consumer.commit()
            assert cluster.committed() == 5

    simulate(scenario)


def test_an_error_does_not_take_back_what_is_on_its_way_either() -> None:
    async def scenario(cluster: GroupCluster) -> None:
        topic_of(cluster, 1, 100)

        async def work() -> None:
            async with cluster.member(topics=["t"], enable_auto_commit=True) as consumer:
                await consumer.poll(30, timeout=10)
                consumer.commit_async({T0: 5})
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await work()
        assert cluster.committed() == 5

    simulate(scenario)
