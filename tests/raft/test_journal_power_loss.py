"""Random lives that end with the power, in the middle of whatever they did; and then go on."""

from __future__ import annotations

import pytest

from quorate.chaos.models.quorum.journal_checkers import live_and_die

SEEDS_PER_TEST = 50


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
