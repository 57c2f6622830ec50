"""Random lives that end with the power, in the middle of whatever they did; and then go on."""

from __future__ import annotations

import random
from contextlib import suppress

import pytest

from quorate.chaos.sim.disk_faults import FaultHook, Operation, ProcessDied
from tests.raft.directory_harness import DirectoryHarness
from tests.raft.directory_life import check_goes_on, random_life

SEEDS_PER_TEST = 50
LIVES = 4
#: to die at one of these operations on such a file; there are about so many of them in a life
MOMENTS: list[tuple[str, str, int]] = [("", "", 250), ("pwritev", "", 8), ("fdatasync", ".journal", 8)]


def die_in(rng: random.Random) -> FaultHook:
    name, file, number_max = rng.choice(MOMENTS)
    death = ProcessDied(written=rng.randint(0, 1000))
    left = rng.randint(1, number_max)

    def hook(operation: Operation) -> None:
        nonlocal left
        left -= name in operation.name and file in operation.path
        if left == 0:
            raise death

    return hook


async def live_and_die(seed: int, *, loses_power: bool) -> list[str]:
    """Why something was torn, each time that it was."""
    rng = random.Random(seed)
    harness = DirectoryHarness(segment_bytes=rng.choice((1, 200, 3000, 100_000)), seed=seed)
    reasons = []
    for _ in range(LIVES):
        harness.disk.fault_hook = die_in(rng)
        with suppress(ProcessDied):
            await random_life(harness, rng, steps=rng.randint(5, 40))
        harness.disk.fault_hook = None
        await (harness.power_loss(rng) if loses_power else harness.restart())
        reasons.append(harness.directory.opening_report.torn_reason)
        harness.ledger.check(harness.directory)
        # Nobody has damaged anything: if all voters lost power at once, all of them must count again.
        assert not harness.directory.hard_state.is_recovering
        assert harness.names(".damaged") == []
        harness.directory.close()
    await harness.begin()
    harness.ledger.check(harness.directory)
    await check_goes_on(harness)
    return [reason for reason in reasons if reason]


@pytest.mark.parametrize("loses_power", [False, True], ids=["process", "machine"])
@pytest.mark.parametrize("first_seed", range(0, 100, SEEDS_PER_TEST))
async def test_what_was_synced_survives_any_number_of_deaths_and_the_voter_counts(
    first_seed: int, *, loses_power: bool
) -> None:
    reasons: list[str] = []
    for seed in range(first_seed, first_seed + SEEDS_PER_TEST):
        try:
            reasons += await live_and_die(seed, loses_power=loses_power)
        except Exception as error:
            error.add_note(f"seed {seed}")
            raise
    assert any("ends within" in reason for reason in reasons)
    assert loses_power == any("never reached the device" in reason for reason in reasons)
