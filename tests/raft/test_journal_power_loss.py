"""Random lives that end with the power, in the middle of whatever they did; and then go on."""

from __future__ import annotations

import random
from contextlib import suppress

import pytest

from quorate.chaos.sim.disk_faults import ProcessDied, fail_nth
from tests.raft.directory_harness import DirectoryHarness
from tests.raft.directory_life import check_goes_on, random_life

SEEDS_PER_TEST = 25
LIVES = 4
#: to die at one of these operations, of which there are about so many in a life
MOMENTS: list[tuple[tuple[str, ...], int]] = [((), 250), (("pwritev",), 20), (("fdatasync",), 40)]


async def live_and_die(seed: int, *, loses_power: bool) -> int:
    """How much was ever torn."""
    rng = random.Random(seed)
    harness = DirectoryHarness(segment_bytes=rng.choice((1, 200, 3000, 100_000)), seed=seed)
    torn_bytes = 0
    for _ in range(LIVES):
        names, number_max = rng.choice(MOMENTS)
        death = ProcessDied(written=rng.randint(0, 1000))
        harness.disk.fault_hook = fail_nth(rng.randint(1, number_max), death, names=names)
        with suppress(ProcessDied):
            await random_life(harness, rng, steps=rng.randint(1, 40))
        harness.disk.fault_hook = None
        await (harness.power_loss(rng) if loses_power else harness.restart())
        torn_bytes += harness.directory.opening_report.torn_bytes
        harness.ledger.check(harness.directory)
        # Nobody has damaged anything: if all voters lost power at once, all of them must count again.
        assert not harness.directory.hard_state.is_recovering
        assert harness.names(".damaged") == []
        harness.directory.close()
    await harness.begin()
    harness.ledger.check(harness.directory)
    await check_goes_on(harness)
    return torn_bytes


@pytest.mark.parametrize("loses_power", [False, True], ids=["process", "machine"])
@pytest.mark.parametrize("first_seed", range(0, 100, SEEDS_PER_TEST))
async def test_what_was_synced_survives_any_number_of_deaths_and_the_voter_counts(
    first_seed: int, *, loses_power: bool
) -> None:
    torn_bytes = 0
    for seed in range(first_seed, first_seed + SEEDS_PER_TEST):
        try:
            torn_bytes += await live_and_die(seed, loses_power=loses_power)
        except Exception as error:
            error.add_note(f"seed {seed}")
            raise
    assert torn_bytes > 0
