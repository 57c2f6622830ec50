"""The directory as a whole: identity, founding, snapshots and the journal together."""

from __future__ import annotations

import asyncio

import pytest

from quorate.chaos.models.quorum import journal_checkers as check
from quorate.chaos.models.quorum.directory_harness import (
    PATH,
    DirectoryHarness,
    command,
    commands,
    hard_state,
    snapshot_at,
)
from quorate.chaos.models.quorum.journal_checkers import entries_of, founded, journal_with_snapshots
from quorate.errors import DiskFull, InvalidConfig, QuorumDamaged, StorageFailed
from quorate.metadata.raft import quorum_directory
from quorate.metadata.raft.entries import Snapshot
from quorate.metadata.raft.journal_mark import MARK_NAME
from quorate.metadata.raft.voters import Voter, Voters

# --- identity and founding ----------------------------------------------------------------------------------


async def test_new_directory_is_formatted_with_a_random_id_and_kept() -> None:
    harness = DirectoryHarness()
    first = await harness.open()
    assert first.opening_report.is_formatted
    assert first.restored is None
    assert len(first.key.directory_id) == 22
    harness.disk.power_loss()
    second = await harness.open()
    assert second.key == first.key
    assert not second.opening_report.is_formatted
    harness.disk.wipe("/data")
    harness.disk.crash()
    assert (await harness.open()).key != first.key


async def test_every_start_has_a_new_incarnation_that_is_durable_when_it_is_told() -> None:
    await check.check_incarnations_grow()


async def test_directory_is_used_by_one_process_at_a_time() -> None:
    harness = DirectoryHarness()
    directory = await harness.open()
    with pytest.raises(StorageFailed, match="used by another process"):
        await harness.open()
    directory.close()
    await harness.open()


async def test_directory_of_another_node_or_cluster_is_refused() -> None:
    harness = DirectoryHarness()
    (await harness.open(cluster_id="ours")).close()
    with pytest.raises(InvalidConfig, match="belongs to node 1"):
        await harness.open(node_id=2)
    with pytest.raises(InvalidConfig, match="belongs to cluster ours"):
        await harness.open(cluster_id="theirs")
    directory = await harness.open()
    assert directory.identity.cluster_id == "ours"


async def test_founding_set_and_its_confirmation_are_durable() -> None:
    harness = DirectoryHarness()
    directory = await harness.open()
    voters = Voters((Voter(directory.key, "localhost:1"),))
    await directory.found(voters)
    assert directory.take_restored().voters == voters
    assert directory.restored is None, "what it held is not kept alive"
    harness.disk.power_loss()
    directory = await harness.open()
    assert directory.identity.founding == voters
    assert not directory.identity.is_confirmed
    await directory.confirm_founding()
    harness.disk.power_loss()
    directory = await harness.open()
    assert directory.identity.is_confirmed
    assert directory.restored is not None
    assert directory.restored.voters == voters


async def test_cluster_id_follows_from_the_founding_voters_where_none_is_configured() -> None:
    ids = set()
    for seed in (1, 1, 2):
        harness = DirectoryHarness(seed=seed)
        directory = await harness.begin()
        ids.add(directory.identity.cluster_id)
    assert len(ids) == 2
    harness = DirectoryHarness()
    directory = await harness.open(cluster_id="mine")
    await directory.found(Voters((Voter(directory.key, "localhost:1"),)))
    assert directory.identity.cluster_id == "mine"


async def test_node_that_joins_starts_without_voters() -> None:
    harness = DirectoryHarness()
    directory = await harness.open()
    await directory.join("theirs")
    assert len(directory.take_restored().voters) == 0
    await directory.write_hard_state(hard_state(3))
    await directory.install_snapshot(snapshot_at(10, term=3))
    harness.disk.power_loss()
    directory = await harness.open()
    assert directory.identity.cluster_id == "theirs"
    assert directory.restored is not None
    assert directory.restored.snapshot == snapshot_at(10, term=3).id
    assert directory.restored.voters == snapshot_at(10).voters


@pytest.mark.parametrize("name", ["identity", "hard-state"])
async def test_missing_state_file_beside_a_journal_refuses_the_start_and_formats_nothing(name: str) -> None:
    harness = await founded()
    await harness.store(*commands(1, 3))
    harness.remove(name)
    before = harness.disk.snapshot(PATH).files
    with pytest.raises(QuorumDamaged, match=name):
        await harness.open()
    assert {**harness.disk.snapshot(PATH).files, ".lock": b""} == {**before, ".lock": b""}


async def test_full_disk_at_the_start_is_told_as_such() -> None:
    harness = await founded()
    harness.disk.crash()
    harness.disk.capacity_bytes = harness.disk.used_bytes
    with pytest.raises(DiskFull):
        await harness.open()
    harness.disk.capacity_bytes = None
    await harness.open()


# --- the journal --------------------------------------------------------------------------------------------


async def test_entries_that_were_synced_survive_and_others_are_forgotten() -> None:
    harness = await founded()
    await harness.store(*commands(1, 4))
    harness.append(commands(5, 6))
    await harness.restart()
    assert entries_of(harness) == commands(1, 4)


async def test_later_entries_replace_earlier_ones_from_their_index_on() -> None:
    harness = await founded(segment_bytes=100)
    await harness.store(*commands(1, 9))
    await harness.write_hard_state(hard_state(3))
    await harness.store(command(4, term=2))
    await harness.store(command(5, term=2))
    harness.append(commands(6, 8, term=2))
    harness.append([command(7, term=3)])
    await harness.sync()
    await harness.power_loss()
    assert entries_of(harness) == [*commands(1, 3), *commands(4, 6, term=2), command(7, term=3)]


async def test_entries_that_wait_may_be_replaced_from_before_the_first_of_them() -> None:
    harness = await founded()
    await harness.store(*commands(1, 5))
    await harness.write_hard_state(hard_state(2))
    harness.append(commands(6, 7))
    harness.append([command(3, term=2)])
    await harness.sync()
    await harness.restart()
    assert entries_of(harness) == [*commands(1, 2), command(3, term=2)]


async def test_all_that_wait_share_one_write_and_one_sync() -> None:
    harness = await founded(segment_bytes=1 << 20)
    await harness.store(command(1))
    harness.disk.trace = []
    for index in range(2, 50):
        harness.append([command(index)])
    await asyncio.gather(*(harness.sync() for _ in range(20)))
    journal = [each.name for each in harness.disk.trace if each.path.endswith(".journal")]
    assert journal == ["pwritev", "fdatasync"]
    assert [each.name for each in harness.disk.trace].count("fdatasync") == 1


async def test_sync_that_was_cancelled_is_made_good_before_anything_else_is_written() -> None:
    harness = await founded(segment_bytes=1)
    harness.disk.sync_delay_s = 0.001
    await harness.store(command(1))
    harness.disk.trace = []
    harness.append([command(2)])
    sync = asyncio.ensure_future(harness.sync())
    await asyncio.sleep(0)
    sync.cancel()
    with pytest.raises(asyncio.CancelledError):
        await sync
    await harness.store(command(3))
    one = ["open", "pwritev", "fdatasync"]
    names = [each.name for each in harness.disk.trace if not each.path.endswith(MARK_NAME)]
    assert names == [*one, "fdatasync", "fsync_directory", *one, "fsync_directory"]
    await harness.power_loss()
    assert entries_of(harness) == commands(1, 3)


async def test_new_file_is_begun_by_size_and_its_name_synced_before_it_counts() -> None:
    harness = await founded(segment_bytes=150)
    for index in range(1, 20):
        await harness.store(command(index))
    assert len(harness.names(".journal")) > 3
    await harness.power_loss()
    assert entries_of(harness) == commands(1, 19)


async def test_gap_in_what_is_appended_is_a_bug_of_the_caller() -> None:
    harness = await founded()
    await harness.store(*commands(1, 3))
    with pytest.raises(AssertionError, match="gap"):
        harness.directory.append([command(5)])


# --- snapshots ----------------------------------------------------------------------------------------------


async def test_start_gives_the_newest_snapshot_and_the_entries_after_it() -> None:
    harness = await journal_with_snapshots(5, 9)
    directory = await harness.power_loss()
    assert directory.snapshot == snapshot_at(9, data=b"at 9")
    assert entries_of(harness) == commands(10, 20)


async def test_journal_is_kept_from_the_older_of_two_snapshots_on() -> None:
    harness = await journal_with_snapshots(5)
    assert len(harness.names(".journal")) == 20
    await harness.save(snapshot_at(9))
    assert len(harness.names(".journal")) == 15
    await harness.save(snapshot_at(20))
    await harness.restart()
    assert [int(name[:20]) for name in harness.names(".snapshot")] == [9, 20]
    assert harness.names(".journal")[0] == f"{10:020d}.journal"


async def test_damaged_installed_snapshot_refuses_the_start() -> None:
    harness = await journal_with_snapshots(5)
    await harness.install(snapshot_at(40))
    await harness.store(command(41))
    newest = harness.names(".snapshot")[-1]
    harness.overwrite(newest, harness.content(newest)[:-1])
    with pytest.raises(QuorumDamaged):
        await harness.open()


async def test_missing_snapshot_refuses_the_start() -> None:
    harness = await journal_with_snapshots(5, 9)
    for name in harness.names(".snapshot"):
        harness.remove(name)
    with pytest.raises(QuorumDamaged, match="lacks entries after entry 0"):
        await harness.open()


async def test_installed_snapshot_replaces_a_log_that_ends_before_it() -> None:
    harness = await founded()
    await harness.store(*commands(1, 5))
    await harness.install(snapshot_at(9))
    await harness.power_loss()
    assert entries_of(harness) == []
    await harness.store(*commands(10, 12))
    await harness.power_loss()
    assert entries_of(harness) == commands(10, 12)
    assert not harness.directory.opening_report.is_install_finished


async def test_installed_snapshot_replaces_a_log_that_contradicts_it() -> None:
    harness = await founded()
    await harness.store(*commands(1, 8))
    await harness.write_hard_state(hard_state(2))
    await harness.install(snapshot_at(5, term=2))
    await harness.power_loss()
    assert entries_of(harness) == []


async def test_installed_snapshot_leaves_entries_after_its_own_last_one() -> None:
    """They may have been acknowledged."""
    harness = await founded()
    await harness.store(*commands(1, 8))
    await harness.install(snapshot_at(5))
    await harness.power_loss()
    assert entries_of(harness) == commands(6, 8)


async def test_install_that_was_interrupted_is_finished_by_the_next_start() -> None:
    harness = await founded()
    await harness.store(*commands(1, 5))
    harness.directory.close()
    snapshot: Snapshot = snapshot_at(9)
    await harness.directory._store.write(snapshot)
    directory = await harness.restart()
    assert directory.opening_report.is_install_finished
    assert directory.snapshot == snapshot
    assert entries_of(harness) == []
    directory.append([command(10)])
    await directory.sync()
    await harness.restart()
    assert entries_of(harness) == [command(10)]


async def test_own_snapshot_that_is_older_than_an_installed_one_is_dropped() -> None:
    harness = await founded()
    await harness.store(*commands(1, 5))
    await harness.install(snapshot_at(9))
    await harness.directory.save_snapshot(snapshot_at(4))
    assert len(harness.names(".snapshot")) == 1


async def test_snapshot_may_be_saved_while_entries_are_appended_and_synced() -> None:
    harness = await journal_with_snapshots(5, 9)

    async def write_on() -> None:
        for index in range(21, 41):
            await harness.store(command(index))

    await asyncio.gather(harness.save(snapshot_at(18)), write_on())
    await harness.power_loss()
    assert entries_of(harness) == commands(19, 40)


async def test_nothing_may_be_appended_while_a_snapshot_is_installed() -> None:
    harness = await founded()
    installing = asyncio.ensure_future(harness.install(snapshot_at(9)))
    await asyncio.sleep(0)
    with pytest.raises(AssertionError):
        harness.directory.append([command(10)])
    await installing


async def test_trimmed_journal_may_begin_with_entries_that_others_replaced() -> None:
    """Those that came first are in a file that is gone; those that took their place are all here."""
    harness = await founded(segment_bytes=160)
    await harness.store(*commands(1, 6))
    await harness.store(command(7))
    await harness.write_hard_state(hard_state(2))
    await harness.store(command(5, term=2))
    await harness.store(*commands(6, 12, term=2))
    await harness.save(snapshot_at(6, term=2))
    await harness.save(snapshot_at(8, term=2))
    assert len(harness.names(".journal")) == 1
    await harness.power_loss()
    assert entries_of(harness) == commands(9, 12, term=2)


class _Death(BaseException):
    """The process ends here."""


async def test_journal_never_relies_on_a_snapshot_whose_name_is_not_durable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def die(*_: object) -> None:
        raise _Death

    harness = await founded()
    await harness.write_hard_state(hard_state(3))
    await harness.store(*commands(1, 5, 1))
    with monkeypatch.context() as patch:
        patch.setattr(harness.disk, "fsync_directory", die)
        with pytest.raises(_Death):
            await harness.directory.install_snapshot(snapshot_at(50, 3))
    harness.disk.crash()
    with monkeypatch.context() as patch:
        patch.setattr(quorum_directory, "write_identity", die)
        with pytest.raises(_Death):
            await harness.open()
    harness.disk.power_loss()
    restored = (await harness.open()).restored
    assert restored is not None
    assert restored.snapshot is not None
    assert restored.snapshot.index == 50


# --- what mutations are held against ---------------------------------------------------------------------


async def test_nothing_is_written_while_a_sync_is_under_way() -> None:
    await check.check_one_group_at_a_time()


async def test_snapshot_is_durable_before_anything_is_removed() -> None:
    await check.check_snapshot_is_durable_first()


@pytest.mark.parametrize("snapshots", [(5, 9), (9,)])
async def test_damaged_newest_snapshot_is_made_up_for_by_the_journal(snapshots: tuple[int, ...]) -> None:
    await check.check_damaged_newest_snapshot(snapshots)


async def test_damaged_snapshot_that_the_journal_cannot_make_up_for_refuses_the_start() -> None:
    await check.check_damaged_snapshots()
