"""Logs of which nothing is left, or nothing that the leader remembers (rules 8, 12, 33 and 49)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from quorate.chaos.cluster.cluster import SimCluster
from quorate.chaos.mutations.complete_member_story import (
    LOOKS_RARELY,
    a_member_that_has_everything_keeps_its_producers,
    a_member_that_wrote_nothing_as_leader_keeps_its_producers,
)
from quorate.chaos.mutations.expired_log_story import what_was_written_since_is_not_passed_over
from quorate.chaos.mutations.unvouched_log_story import LOOKS_OFTEN
from quorate.chaos.sim.clock import Simulation, run_simulation


def _play(story: Callable[[SimCluster], Awaitable[None]], settings: dict[str, int] = LOOKS_OFTEN) -> None:
    async def main(simulation: Simulation) -> None:
        cluster = SimCluster(simulation, settings=settings)
        await cluster.start()
        await story(cluster)

    run_simulation(main, seed=1, time_limit_s=600)


@pytest.mark.parametrize("is_one_batch", [False, True], ids=["many batches", "one batch"])
@pytest.mark.parametrize("is_forced_by_setting", [False, True], ids=["by an operator", "by a setting"])
def test_an_empty_replica_lacks_nothing_that_a_forced_leader_has_acknowledged(
    *, is_forced_by_setting: bool, is_one_batch: bool
) -> None:
    async def story(cluster: SimCluster) -> None:
        await what_was_written_since_is_not_passed_over(
            cluster, is_forced_by_setting=is_forced_by_setting, is_one_batch=is_one_batch
        )

    _play(story)


def test_a_complete_member_keeps_its_producers() -> None:
    _play(a_member_that_has_everything_keeps_its_producers)


def test_a_complete_member_that_led_and_wrote_nothing_keeps_its_producers() -> None:
    _play(a_member_that_wrote_nothing_as_leader_keeps_its_producers, LOOKS_RARELY)
