"""A log that ends before what was committed does not count until it has caught up (rules 30, 44)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from quorate.chaos.cluster.cluster import SimCluster
from quorate.chaos.cluster.machine import SimMachine
from quorate.chaos.mutations.shortened_log_story import (
    a_shortened_log_does_not_lead,
    cut_within_a_batch,
    remove_the_log,
    remove_the_segment,
)
from quorate.chaos.sim.clock import Simulation, run_simulation


@pytest.mark.parametrize("is_clean", [False, True], ids=["killed", "stopped"])
@pytest.mark.parametrize("harm", [cut_within_a_batch, remove_the_segment, remove_the_log])
def test_shortened_log_does_not_lead(harm: Callable[[SimMachine, str], None], *, is_clean: bool) -> None:
    async def main(simulation: Simulation) -> None:
        cluster = SimCluster(simulation)
        await cluster.start()
        await a_shortened_log_does_not_lead(cluster, harm, is_clean=is_clean)

    run_simulation(main, seed=1, time_limit_s=600)
