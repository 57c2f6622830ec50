"""Each damage of a replica's files is noticed by itself, or is not."""

from __future__ import annotations

from collections import Counter
from typing import cast

from quorate.chaos.drills.agent import ClusterAgent
from quorate.chaos.drills.damages import WatchedDamages
from quorate.chaos.faults.damage import Damage, FileKind, Harm


class Logs:
    """An agent as far as it is asked for what nodes have logged."""

    def __init__(self) -> None:
        self.logged: Counter[tuple[str, str, str]] = Counter()

    def times_logged(self, event: str, *, node: str | None = None, about: str = "") -> int:
        return sum(
            count
            for (name, found, line), count in self.logged.items()
            if (name, found) == (node, event) and about in line
        )

    def notice(self, node: str, replica: str, event: str = "log_damaged") -> None:
        self.logged[node, event, f"/{node}/{replica}/0.log"] += 1


def harm(node: str, replica: str) -> Damage:
    return Damage(f"/{node}/{replica}/0.log", FileKind.SEGMENT, Harm.FLIP, 7, 1)


def detections(watched: WatchedDamages) -> list[int]:
    return [each.detections for each in watched.outcomes()]


def test_a_detection_counts_for_the_replica_that_was_damaged_and_for_no_other() -> None:
    logs = Logs()
    watched = WatchedDamages(cast("ClusterAgent", logs))
    for node, replica in (("b1", "orders-0"), ("b2", "orders-0"), ("b1", "orders-1")):
        watched.add(node, harm(node, replica))
    logs.notice("b2", "orders-0")
    assert detections(watched) == [0, 1, 0]


def test_a_detection_counts_for_the_last_damage_before_it() -> None:
    logs = Logs()
    watched = WatchedDamages(cast("ClusterAgent", logs))
    logs.notice("b1", "orders-0")
    first = watched.add("b1", harm("b1", "orders-0"))
    assert not watched.is_noticed(first)
    logs.notice("b1", "orders-0", "log_shortened")
    assert watched.is_noticed(first)
    watched.add("b1", harm("b1", "orders-0"))
    watched.add("b1", harm("b1", "orders-0"))
    logs.notice("b1", "orders-0")
    logs.notice("b1", "orders-0")
    assert detections(watched) == [1, 0, 2]


def test_what_was_seen_to_be_gone_is_told() -> None:
    watched = WatchedDamages(cast("ClusterAgent", Logs()))
    watched.add("b1", harm("b1", "orders-0")).is_gone = True
    (outcome,) = watched.outcomes()
    assert (outcome.replica, outcome.detections, outcome.is_gone) == ("b1:orders-0", 0, True)
