"""Every single bit of a small directory flipped in turn: found, and never a shorter log that counts."""

from __future__ import annotations

import pytest

from quorate.chaos.models.quorum import journal_checkers as check


@pytest.mark.parametrize("lost_power", [False, True])
async def test_every_flipped_bit_of_the_journal_refuses_the_start_or_makes_the_voter_catch_up(
    *, lost_power: bool
) -> None:
    await check.check_every_flip_of_the_journal(lost_power=lost_power)


async def test_every_flipped_bit_of_the_newest_snapshot_is_found_and_the_older_one_serves() -> None:
    await check.check_every_flip_of_the_newest_snapshot()


@pytest.mark.parametrize("name", ["identity", "hard-state"])
async def test_every_flipped_bit_of_identity_and_vote_refuses_the_start(name: str) -> None:
    await check.check_every_flip_of_a_small_file(name)
