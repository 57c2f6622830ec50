"""Small state files: whole or known not to be, old or new and nothing in between."""

from __future__ import annotations

import errno
import random
from typing import Any

import pytest

from quorate.chaos.models.log.log_harness import HastyClock, os_error
from quorate.chaos.sim.disk import DiskSnapshot, SimDisk
from quorate.chaos.sim.disk_faults import ProcessDied, fail_nth, fail_path
from quorate.core.disk import NameNotSynced, SyncFailed, lacks_descriptors
from quorate.core.ids import Offset
from quorate.storage.checkpoint import (
    TEMPORARY_SUFFIX,
    DamagedCheckpoint,
    read_checkpoint,
    write_cached,
    write_durably,
)
from quorate.storage.quarantine import DAMAGE_NAME, Damage, lift_damage, load_damage, save_damage

PATH = "/log/checkpoint"
OLD: dict[str, Any] = {"n": 1, "list": [1, 2, None]}
NEW: dict[str, Any] = {"n": 2, "list": list(range(30)), "text": "line\nbreak ü"}


@pytest.fixture
def disk() -> SimDisk:
    disk = SimDisk()
    disk.restore(DiskSnapshot(["log"], {}))
    return disk


def test_missing_checkpoint_reads_as_none(disk: SimDisk) -> None:
    assert read_checkpoint(disk, PATH) is None


@pytest.mark.parametrize("state", [OLD, NEW, {}])
async def test_checkpoint_reads_as_written(disk: SimDisk, state: dict[str, Any]) -> None:
    write_cached(disk, PATH, state)
    assert read_checkpoint(disk, PATH) == state
    await write_durably(disk, PATH, state)
    assert read_checkpoint(disk, PATH) == state
    assert disk.list("/log") == ["checkpoint"]


def test_every_flipped_bit_of_a_checkpoint_is_noticed(disk: SimDisk) -> None:
    write_cached(disk, PATH, NEW)
    for bit in range(8 * disk.size(PATH)):
        disk.flip_bit(PATH, bit)
        with pytest.raises(DamagedCheckpoint) as caught:
            read_checkpoint(disk, PATH)
        assert caught.value.path == PATH
        disk.flip_bit(PATH, bit)


def test_checkpoint_of_any_other_length_is_noticed(disk: SimDisk) -> None:
    write_cached(disk, PATH, NEW)
    content = disk.read_file(PATH)
    for other in (*(content[:length] for length in range(len(content))), content + b"\n", content + content):
        disk.restore(DiskSnapshot(["log"], {"log/checkpoint": other}))
        with pytest.raises(DamagedCheckpoint):
            read_checkpoint(disk, PATH)


def test_shorter_state_is_not_followed_by_the_rest_of_a_leftover(disk: SimDisk) -> None:
    write_cached(disk, PATH + TEMPORARY_SUFFIX + ".other", NEW)
    disk.rename(PATH + TEMPORARY_SUFFIX + ".other", PATH + TEMPORARY_SUFFIX)
    write_cached(disk, PATH, OLD)
    assert read_checkpoint(disk, PATH) == OLD


async def test_durable_checkpoint_survives_power_loss(disk: SimDisk) -> None:
    await write_durably(disk, PATH, OLD)
    disk.power_loss()
    assert read_checkpoint(disk, PATH) == OLD


def test_cached_checkpoint_survives_a_process_crash_only(disk: SimDisk) -> None:
    write_cached(disk, PATH, OLD)
    disk.crash()
    assert read_checkpoint(disk, PATH) == OLD
    disk.power_loss()
    assert read_checkpoint(disk, PATH) is None


@pytest.mark.parametrize("kind", ["cached", "durable"])
async def test_death_at_any_step_leaves_the_old_state_or_the_new(disk: SimDisk, kind: str) -> None:
    async def write(state: dict[str, Any]) -> None:
        if kind == "cached":
            write_cached(disk, PATH, state)
        else:
            await write_durably(disk, PATH, state)

    await write_durably(disk, PATH, OLD)
    seen = set()
    for number in range(1, 20):
        before = disk.snapshot()
        disk.fault_hook = fail_nth(number, ProcessDied(written=20))
        try:
            await write(NEW)
        except ProcessDied:
            disk.crash()
        disk.fault_hook = None
        found = read_checkpoint(disk, PATH)
        assert found in (OLD, NEW)
        seen.add(found == NEW)
        disk.restore(before)
    assert seen == {False, True}


async def test_want_of_a_descriptor_to_sync_the_directory_is_waited_for(disk: SimDisk) -> None:
    await write_durably(disk, PATH, OLD)
    disk.fault_hook = fail_nth(1, os_error(errno.EMFILE), names={"fsync_directory"})
    await write_durably(disk, PATH, NEW, clock=HastyClock())
    disk.power_loss()
    assert read_checkpoint(disk, PATH) == NEW


@pytest.mark.parametrize("clock", [None, HastyClock()])
async def test_file_that_was_replaced_without_a_sync_never_looks_as_if_nothing_had_happened(
    disk: SimDisk, clock: HastyClock | None
) -> None:
    await write_durably(disk, PATH, OLD)
    disk.fault_hook = fail_path("", lambda: os_error(errno.EMFILE), names={"fsync_directory"})
    with pytest.raises(NameNotSynced) as caught:
        await write_durably(disk, PATH, NEW, clock=clock)
    assert lacks_descriptors(caught.value), "the device was not asked"
    assert read_checkpoint(disk, PATH) == NEW
    for number in (errno.EIO, errno.ENOSPC):
        disk.fault_hook = fail_nth(1, os_error(number), names={"fsync_directory"})
        with pytest.raises(SyncFailed) as failed:
            await write_durably(disk, PATH, NEW, clock=clock)
        assert failed.value.errno == errno.EIO


async def test_power_loss_at_any_step_leaves_a_durable_state_old_or_new(disk: SimDisk) -> None:
    await write_durably(disk, PATH, OLD)
    clean = disk.snapshot()
    for seed in range(100):
        rng = random.Random(seed)
        disk.restore(clean)
        disk.fault_hook = fail_nth(rng.randint(1, 9), ProcessDied(written=rng.randint(0, 40)))
        is_done = False
        try:
            await write_durably(disk, PATH, NEW)
            is_done = True
        except ProcessDied:
            pass
        disk.fault_hook = None
        disk.power_loss(rng)
        found = read_checkpoint(disk, PATH)
        assert found == NEW if is_done else found in (OLD, NEW), f"seed {seed}"


# -- the mark of damage

DAMAGE = Damage("/log/00000000000000000000.log", 61, Offset(4711), "checksum does not match")


def test_mark_of_damage_says_what_was_found(disk: SimDisk) -> None:
    assert load_damage(disk, "/log") is None
    save_damage(disk, "/log", DAMAGE)
    assert load_damage(disk, "/log") == DAMAGE
    assert str(DAMAGE) == "/log/00000000000000000000.log at byte 61, offset 4711: checksum does not match"


def test_mark_of_damage_counts_after_the_directory_was_moved(disk: SimDisk) -> None:
    save_damage(disk, "/log", DAMAGE)
    disk.rename("/log", "/moved")
    assert load_damage(disk, "/moved") == Damage(
        "/moved/00000000000000000000.log", 61, Offset(4711), DAMAGE.reason
    )


def test_damaged_mark_of_damage_is_still_a_mark(disk: SimDisk) -> None:
    save_damage(disk, "/log", DAMAGE)
    path = f"/log/{DAMAGE_NAME}"
    for bit in range(8 * disk.size(path)):
        disk.flip_bit(path, bit)
        assert load_damage(disk, "/log") is not None
        disk.flip_bit(path, bit)


async def test_lifted_mark_stays_lifted_after_power_loss(disk: SimDisk) -> None:
    save_damage(disk, "/log", DAMAGE)
    await disk.fsync_directory("/log")
    await lift_damage(disk, "/log")
    await lift_damage(disk, "/log")
    disk.power_loss()
    assert load_damage(disk, "/log") is None
