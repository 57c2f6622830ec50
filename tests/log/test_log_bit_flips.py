"""Every single bit of a small log flipped in turn, in every file: each is detected, or does not matter."""

from __future__ import annotations

from contextlib import suppress

import pytest

from quorate.chaos.models.log.log_flips import (
    check_flip_after_crash,
    check_flip_after_stop,
    check_times,
    small_log,
)
from quorate.errors import LogDamaged
from quorate.storage import StartKind
from quorate.storage.inspect import ProblemKind, verify


async def test_small_log_has_a_file_of_every_kind() -> None:
    names = (await small_log(is_closed=True)).files.files
    kinds = {name.rpartition(".")[2] for name in names}
    assert kinds == {"log", "index", "timeindex", "snapshot", "leader-epoch-checkpoint", "log-checkpoint"}
    assert sum(name.endswith(".log") for name in names) == 2


async def test_every_flipped_bit_of_a_batch_is_damage_found_by_the_start() -> None:
    """Never cut as if it were torn, never served; and the place is named."""
    small = await small_log()
    for name, bit in small.bits(".log"):
        await check_flip_after_crash(small, name, bit)


@pytest.mark.parametrize("suffix", ["index", ".snapshot", "checkpoint"])
async def test_no_flipped_bit_of_another_file_changes_what_a_start_finds(suffix: str) -> None:
    small = await small_log()
    for name, bit in small.bits(suffix):
        await check_flip_after_crash(small, name, bit)


async def test_every_flipped_bit_of_a_batch_is_found_by_reads_after_a_clean_start() -> None:
    small = await small_log(is_closed=True)
    for name, bit in small.bits(".log"):
        await check_flip_after_stop(small, name, bit, start=StartKind.CLEAN)


async def test_no_flipped_bit_of_a_batch_misleads_a_time_lookup() -> None:
    small = await small_log(is_closed=True)
    for name, bit in small.bits(f"{0:020d}.log"):
        small.flip(name, bit)
        await small.harness.open(StartKind.CLEAN)
        with suppress(LogDamaged):
            check_times(small, what=f"bit {bit} of {name}")


async def test_no_flipped_bit_of_another_file_changes_an_answer_after_a_clean_start() -> None:
    small = await small_log(is_closed=True)
    for name, bit in small.bits():
        if not name.endswith(".log"):
            await check_flip_after_stop(small, name, bit, start=StartKind.CLEAN)


async def test_every_flipped_bit_below_the_recovery_point_is_found_by_reads() -> None:
    """A start after a crash does not scan what was synced before."""
    small = await small_log(is_checkpointed=True)
    first = min(name for name in small.files.files if name.endswith(".log"))
    for name, bit in small.bits(first):
        await check_flip_after_stop(small, name, bit, start=StartKind.PROCESS_CRASH)


async def test_every_flipped_bit_of_a_batch_is_found_by_verify() -> None:
    small = await small_log(is_closed=True)
    for name, bit in small.bits(".log"):
        small.flip(name, bit)
        (report,) = verify(small.harness.disk, small.harness.directory)
        kinds = [(problem.kind, problem.path) for problem in report.problems]
        assert (ProblemKind.DAMAGE, small.harness.path(name)) in kinds, f"bit {bit} of {name}: {kinds}"
