"""Consumers that assign partitions by themselves, and keep their offsets in a group without being in it."""

from __future__ import annotations

from typing import Any

import pytest

from quorate.client.consumer.group import commit_policy
from quorate.v1 import group_pb2
from tests.unit.client.fake_coordinator import GroupCluster, simulate

T0: Any = ("t", 0)


def topic_of(cluster: GroupCluster, records: int = 100) -> None:
    cluster.add_topic().partitions[0].fill(records)


def looks(cluster: GroupCluster) -> int:
    return len(cluster.requests(group_pb2.FetchOffsetsRequest))


def test_a_commit_names_the_revision_of_the_last_answer() -> None:
    async def scenario(cluster: GroupCluster) -> None:
        topic_of(cluster)
        async with cluster.member(enable_auto_commit=False) as consumer:
            for offset in (5, 6, 7):
                await consumer.commit({T0: offset})
            assert looks(cluster) == 1, "each answer has the next one"
            assert cluster.committed() == 7
        assert {each.commit_number for each in cluster.commits()} == {0}, "there is no one who counts"

    simulate(scenario)


def test_whoever_commits_last_counts() -> None:
    async def scenario(cluster: GroupCluster) -> None:
        topic_of(cluster)
        async with cluster.member(enable_auto_commit=False) as one, cluster.admin() as admin:
            await one.commit({T0: 5})
            await admin.commit_offsets("g", {T0: 50})
            await one.commit({T0: 6})
            assert cluster.committed() == 6
            assert len(cluster.commits()) == 4, "one was refused: it was based on what was not so any more"

    simulate(scenario)


def test_an_attempt_without_an_answer_does_not_stop_the_next() -> None:
    async def scenario(cluster: GroupCluster) -> None:
        topic_of(cluster)
        async with cluster.member(enable_auto_commit=False) as consumer:
            await consumer.commit({T0: 5})
            cluster.lose_answers["CommitOffsets"] = 1
            await consumer.commit({T0: 6})
            await consumer.commit({T0: 7})
            assert cluster.committed() == 7

    simulate(scenario)


def test_a_position_is_committed_again_before_it_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is written for a week: the coordinator knows of no member, and offsets expire."""
    monkeypatch.setattr(commit_policy, "_REFRESHED_AFTER_S", 60.0)

    async def scenario(cluster: GroupCluster) -> None:
        topic_of(cluster)
        async with cluster.member(auto_offset_reset="earliest", enable_auto_commit=True) as consumer:
            consumer.assign([T0])
            for _ in range(100):
                await consumer.poll(100, timeout=30)
            assert 1 + 24 <= len(cluster.commits()) <= 1 + 50
            assert cluster.committed() == 100

    simulate(scenario)


def test_a_member_does_not_commit_again_what_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commit_policy, "_REFRESHED_AFTER_S", 60.0)

    async def scenario(cluster: GroupCluster) -> None:
        topic_of(cluster)
        async with cluster.member(
            topics=["t"], auto_offset_reset="earliest", enable_auto_commit=True
        ) as consumer:
            for _ in range(100):
                await consumer.poll(100, timeout=30)
            assert len(cluster.commits()) == 1

    simulate(scenario)
