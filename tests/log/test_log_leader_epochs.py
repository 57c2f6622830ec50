"""The leader-epoch cache: which epoch wrote which offsets, and what a diverging follower is told."""

from __future__ import annotations

import pytest

from quorate.chaos.sim.disk import DiskSnapshot, SimDisk
from quorate.core.ids import NO_LEADER_EPOCH, LeaderEpoch, Offset
from quorate.storage.checkpoint import DamagedCheckpoint
from quorate.storage.leader_epochs import EpochEnd, LeaderEpochCache

PATH = "/log/leader-epoch-checkpoint"


def new_disk() -> SimDisk:
    disk = SimDisk()
    disk.restore(DiskSnapshot(["log"], {}))
    return disk


def cache(*entries: tuple[int, int], disk: SimDisk | None = None) -> LeaderEpochCache:
    epochs = LeaderEpochCache(disk or new_disk(), PATH)
    for epoch, start_offset in entries:
        assert epochs.assign(LeaderEpoch(epoch), Offset(start_offset))
    epochs.validate()
    return epochs


def entries(epochs: LeaderEpochCache) -> list[tuple[int, int]]:
    epochs.validate()
    return [(entry.epoch, entry.start_offset) for entry in epochs.entries]


def end_of(epochs: LeaderEpochCache, epoch: int, log_end_offset: int = 100) -> EpochEnd | None:
    return epochs.end_of(LeaderEpoch(epoch), log_end_offset=Offset(log_end_offset))


def test_empty_cache_knows_no_epoch() -> None:
    epochs = cache()
    assert epochs.latest == NO_LEADER_EPOCH
    assert epochs.epoch_at(Offset(0)) == NO_LEADER_EPOCH
    assert end_of(epochs, 0) is None


def test_the_earliest_epoch_is_that_of_what_is_left() -> None:
    epochs = cache((2, 0), (5, 10))
    assert (cache().earliest, epochs.earliest) == (NO_LEADER_EPOCH, 2)
    epochs.truncate_from_start(Offset(12))
    assert epochs.earliest == 5


def test_epoch_in_force_is_the_last_one_that_started() -> None:
    epochs = cache((2, 0), (5, 10), (6, 30))
    at = [epochs.epoch_at(Offset(offset)) for offset in (0, 9, 10, 29, 30, 10**12)]
    assert at == [2, 2, 5, 5, 6, 6]
    assert epochs.latest == 6


def test_before_the_first_entry_no_epoch_is_in_force() -> None:
    assert cache((2, 10)).epoch_at(Offset(9)) == NO_LEADER_EPOCH


def test_assigning_the_epoch_in_force_is_no_news() -> None:
    epochs = cache((2, 0))
    assert not epochs.assign(LeaderEpoch(2), Offset(0))
    assert not epochs.assign(LeaderEpoch(2), Offset(50))
    assert entries(epochs) == [(2, 0)]


def test_epoch_without_batches_is_replaced_by_the_next_at_the_same_offset() -> None:
    """Back-to-back elections: each leader notes its epoch, none writes (rule 6)."""
    epochs = cache((2, 0), (3, 10), (4, 10), (7, 10))
    assert entries(epochs) == [(2, 0), (7, 10)]


def test_a_batch_of_an_older_epoch_drops_newer_epochs_without_batches() -> None:
    """A leader noted epoch 7 and wrote nothing; as a follower it receives epoch 5 there."""
    epochs = cache((2, 0), (7, 10))
    assert epochs.assign(LeaderEpoch(5), Offset(10))
    assert entries(epochs) == [(2, 0), (5, 10)]
    assert epochs.assign(LeaderEpoch(2), Offset(10))
    assert entries(epochs) == [(2, 0)]


def test_epochs_never_decrease_along_the_log() -> None:
    with pytest.raises(AssertionError):
        cache((5, 0)).assign(LeaderEpoch(4), Offset(10))


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        (6, EpochEnd(LeaderEpoch(6), Offset(100))),  # the current one ends with the log
        (5, EpochEnd(LeaderEpoch(5), Offset(30))),
        (4, EpochEnd(LeaderEpoch(2), Offset(10))),  # unknown here: the largest one below it
        (3, EpochEnd(LeaderEpoch(2), Offset(10))),
        (2, EpochEnd(LeaderEpoch(2), Offset(10))),
        (1, EpochEnd(LeaderEpoch(1), Offset(0))),  # older than all: it ends where the log begins
        (7, None),  # newer than all: this replica cannot answer
    ],
)
def test_end_of_an_epoch_is_where_the_next_one_starts(asked: int, answer: EpochEnd | None) -> None:
    assert end_of(cache((2, 0), (5, 10), (6, 30)), asked) == answer


def test_epoch_noted_before_its_first_batch_can_be_answered() -> None:
    """Rule 6: the follower asks for the epoch of a leader that has not written yet."""
    epochs = cache((2, 0), (3, 40))
    assert end_of(epochs, 3, log_end_offset=40) == EpochEnd(LeaderEpoch(3), Offset(40))
    assert end_of(epochs, 2, log_end_offset=40) == EpochEnd(LeaderEpoch(2), Offset(40))


@pytest.mark.parametrize(
    ("offset", "left"),
    [
        (0, []),
        (1, [(2, 0)]),
        (10, [(2, 0)]),
        (11, [(2, 0), (5, 10)]),
        (30, [(2, 0), (5, 10)]),
        (31, [(2, 0), (5, 10), (6, 30)]),
    ],
)
def test_truncation_at_the_end_drops_epochs_without_a_batch(offset: int, left: list[tuple[int, int]]) -> None:
    epochs = cache((2, 0), (5, 10), (6, 30))
    assert epochs.truncate_from_end(Offset(offset)) == (len(left) < 3)
    assert entries(epochs) == left


@pytest.mark.parametrize(
    ("offset", "left"),
    [
        (0, [(2, 0), (5, 10), (6, 30)]),
        (4, [(2, 4), (5, 10), (6, 30)]),
        (10, [(5, 10), (6, 30)]),
        (29, [(5, 29), (6, 30)]),
        (30, [(6, 30)]),
        (99, [(6, 99)]),
    ],
)
def test_truncation_at_the_start_keeps_the_epoch_in_force_there(
    offset: int, left: list[tuple[int, int]]
) -> None:
    epochs = cache((2, 0), (5, 10), (6, 30))
    assert epochs.truncate_from_start(Offset(offset)) == (offset > 0)
    assert entries(epochs) == left


def test_truncation_at_the_start_before_all_entries_changes_nothing() -> None:
    epochs = cache((2, 10))
    assert not epochs.truncate_from_start(Offset(5))
    assert entries(epochs) == [(2, 10)]


async def test_checkpoint_restores_the_cache() -> None:
    disk = new_disk()
    epochs = cache((2, 0), (5, 10), disk=disk)
    epochs.save_cached()
    loaded = cache(disk=disk)
    assert loaded.load()
    assert entries(loaded) == [(2, 0), (5, 10)]


def test_a_missing_checkpoint_is_told_from_an_empty_one() -> None:
    disk = new_disk()
    assert not cache(disk=disk).load()
    cache(disk=disk).save_cached()
    assert cache(disk=disk).load()


async def test_synced_epochs_survive_power_loss() -> None:
    disk = new_disk()
    epochs = cache((2, 0), disk=disk)
    epochs.save_cached()
    await epochs.sync()
    epochs.assign(LeaderEpoch(3), Offset(7))
    epochs.save_cached()
    disk.power_loss()
    survived = cache(disk=disk)
    assert survived.load()
    assert entries(survived) == [(2, 0)]


async def test_sync_does_nothing_when_nothing_changed() -> None:
    disk = new_disk()
    epochs = cache((2, 0), disk=disk)
    epochs.save_cached()
    await epochs.sync()
    before = disk.operation_count
    await epochs.sync()
    assert disk.operation_count == before


async def test_epoch_assigned_while_a_sync_runs_needs_a_sync_of_its_own() -> None:
    disk = new_disk()
    epochs = cache((2, 0), disk=disk)
    epochs.save_cached()
    sync = epochs.sync()
    sync.send(None)  # it waits for the device
    epochs.assign(LeaderEpoch(3), Offset(7))
    epochs.save_cached()
    with pytest.raises(StopIteration):
        [sync.send(None) for _ in range(10)]
    await epochs.sync()
    disk.power_loss()
    survived = cache(disk=disk)
    assert survived.load()
    assert entries(survived) == [(2, 0), (3, 7)]


def test_damaged_checkpoint_is_never_believed() -> None:
    disk = new_disk()
    cache((2, 0), (5, 10), disk=disk).save_cached()
    for bit in range(8 * disk.size(PATH)):
        disk.flip_bit(PATH, bit)
        with pytest.raises(DamagedCheckpoint):
            cache(disk=disk).load()
        disk.flip_bit(PATH, bit)
