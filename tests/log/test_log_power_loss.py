"""Random lives that end without power, at any operation, on a device that wrote back what it liked.

What was flushed is there, what is there is a prefix of what was appended, and epochs and producers
are those of the batches that are left. A seed that fails fails again.
"""

from __future__ import annotations

import random
from contextlib import suppress

import pytest

from quorate.chaos.models.log.log_faults import (
    LIFE_CONFIG,
    Ledger,
    Life,
    check_goes_on,
    check_survivors,
    random_life,
)
from quorate.chaos.models.log.log_harness import LogHarness, batch, read_all, small_config
from quorate.chaos.sim.disk_faults import ProcessDied, fail_nth
from quorate.core.ids import LeaderEpoch
from quorate.storage import StartKind

SEEDS_PER_TEST = 25
STEPS = 25


async def die_without_power(seed: int) -> None:
    rng = random.Random(seed)
    harness, ledger = LogHarness(LIFE_CONFIG), Ledger()
    # Some lives end between two steps, most in the middle of one.
    harness.disk.fault_hook = fail_nth(rng.randint(30, 500), ProcessDied(written=rng.randint(0, 120)))
    life = Life(harness, ledger)
    with suppress(ProcessDied):
        await random_life(life, rng, steps=rng.randint(1, STEPS))
    harness.disk.fault_hook = None
    harness.disk.power_loss(rng)
    await harness.open(StartKind.LOSSY)
    check_survivors(harness, ledger, lost_power=True)
    await check_again_after_a_crash(harness, ledger)


async def check_again_after_a_crash(harness: LogHarness, ledger: Ledger) -> None:
    """What a lossy start has decided is decided: nothing comes back, nothing more is missing."""
    found = read_all(harness.log)
    harness.disk.power_loss()
    await harness.open(StartKind.LOSSY)
    assert read_all(harness.log) == found
    check_survivors(harness, ledger, lost_power=True)
    await check_goes_on(harness)


@pytest.mark.parametrize("first_seed", range(0, 150, SEEDS_PER_TEST))
async def test_flushed_batches_survive_and_the_rest_is_a_prefix(first_seed: int) -> None:
    for seed in range(first_seed, first_seed + SEEDS_PER_TEST):
        try:
            await die_without_power(seed)
        except Exception as error:
            error.add_note(f"seed {seed}")
            raise


async def test_process_that_dies_in_a_random_life_loses_nothing_acknowledged() -> None:
    """The page cache outlives it: the batch that was being written may be there, all others are."""
    for seed in range(60):
        rng = random.Random(seed)
        harness, ledger = LogHarness(LIFE_CONFIG), Ledger()
        harness.disk.fault_hook = fail_nth(rng.randint(30, 500), ProcessDied(written=rng.randint(0, 50)))
        with suppress(ProcessDied):
            await random_life(Life(harness, ledger), rng, steps=STEPS)
        harness.disk.fault_hook = None
        harness.disk.crash()
        await harness.open(StartKind.PROCESS_CRASH)
        try:
            check_survivors(harness, ledger, lost_power=False)
            await check_goes_on(harness)
        except Exception as error:
            error.add_note(f"seed {seed}")
            raise


async def test_lossy_start_never_cuts_what_was_synced_before() -> None:
    """Below the recovery point a power loss explains nothing: a bad batch there is damage (rule 44)."""
    harness = LogHarness(small_config(segment_bytes=100_000))
    await harness.lead(1)
    harness.append(batch(b"a"), batch(b"b"), batch(b"c"))
    await harness.restart()
    harness.log.become_leader(LeaderEpoch(2))
    harness.append(batch(b"d"))
    harness.disk.flip_bit(harness.path("00000000000000000000.log"), 8 * 65)
    log = await harness.power_loss()
    assert log.damage is not None
    assert log.damage.offset == 0
