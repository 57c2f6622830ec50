"""Who is measured when, and what happens if a load fails."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from bench.cluster.peer import Latencies, Load, Peer
from bench.cluster.processes import ClientFailed
from bench.cluster.turns import take_turns
from bench.cluster.works import chosen_works


class NotedPeer(Peer):
    """Measures nothing; notes in ``journal`` what it was asked."""

    fail_overs = 2

    def __init__(self, name: str, journal: list[str]) -> None:
        self._name = name
        self._journal = journal

    def _note(self, what: str) -> None:
        self._journal.append(f"{self._name} {what}")

    async def __aenter__(self) -> NotedPeer:
        return self

    async def __aexit__(self, *_: object) -> None:
        self._note("ends")

    async def start(self) -> float:
        self._note("starts")
        return 1.0

    async def create_topic(self, topic: str, partitions: int) -> None:
        pass

    def resident_bytes(self) -> list[int]:
        return [100_000_000, 300_000_000]

    async def produce(self, load: Load) -> Mapping[str, float]:
        self._note(f"produces {load.topic}")
        return {"send": 1.0}

    async def produce_one_per_batch(self, load: Load) -> float:
        raise ClientFailed("it broke")

    async def send_alone(self, load: Load) -> Latencies:
        self._note("sends alone")
        return Latencies(1.0, 2.0)

    async def end_to_end(self, load: Load, *, rate: float) -> Latencies:
        return Latencies(1.0, 2.0)

    async def consume(self, load: Load) -> Mapping[str, float]:
        return {}

    async def fail_over(self, topic: str, *, times: int, with_controller: bool) -> list[float]:
        self._note("fails over")
        return [0.5] * times


@pytest.fixture
def journal() -> list[str]:
    return []


async def test_one_cluster_lives_at_a_time_and_they_take_turns(journal: list[str]) -> None:
    sides = {name: lambda name=name: NotedPeer(name, journal) for name in ("a", "b")}
    await take_turns(sides, chosen_works(["send-alone"]), rounds=2)
    life = ["starts", "produces warm-up", "sends alone", "ends"]
    assert journal == [f"{side} {what}" for _ in range(2) for side in ("a", "b") for what in life]


async def test_leaders_are_killed_in_the_first_round_only(journal: list[str]) -> None:
    measured, _ = await take_turns(
        {"a": lambda: NotedPeer("a", journal)}, chosen_works(["fail-over"]), rounds=2
    )
    assert measured["a"]["fail-over: leader"] == [0.5, 0.5]
    assert measured["a"]["fail-over: controller"] == [0.5, 0.5]


async def test_a_load_that_fails_is_told_and_the_others_go_on(journal: list[str]) -> None:
    works = chosen_works(["one-per-batch", "send-alone"])
    measured, failures = await take_turns({"a": lambda: NotedPeer("a", journal)}, works, rounds=1)
    assert failures == ["a, round 1, one-per-batch: it broke"]
    assert measured["a"]["send-alone: p99"] == [2.0]


async def test_the_memory_of_every_node_counts(journal: list[str]) -> None:
    measured, _ = await take_turns({"a": lambda: NotedPeer("a", journal)}, chosen_works(["memory"]), rounds=1)
    assert measured["a"]["memory"] == [100.0, 300.0]
