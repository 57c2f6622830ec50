"""A data directory: one process at a time, one node, one cluster, and what a start says about it."""

from __future__ import annotations

import errno
import os

import pytest
import structlog

from quorate.broker.directory.broker_directory import BrokerDirectory
from quorate.chaos.models.directory.broker_lives import (
    CLUSTER,
    FSYNC,
    NODE,
    PATH,
    REPLICATED,
    BrokerLives,
    open_in,
)
from quorate.chaos.models.log.log_harness import SMALL_CONFIG, ManualClock, make_context, os_error
from quorate.chaos.sim.disk import SimDisk
from quorate.chaos.sim.disk_faults import fail_path
from quorate.core.ids import BrokerEpoch, BrokerId
from quorate.errors import DiskFull, InvalidConfig, StorageFailed
from quorate.storage import StartKind

IDENTITY = f"{PATH}/broker-identity"
NOTES = f"{PATH}/run-notes"


async def open_as(disk: SimDisk, node_id: int, cluster_id: str | None) -> BrokerDirectory:
    return await BrokerDirectory.open(
        make_context(disk), PATH, node_id=BrokerId(node_id), cluster_id=cluster_id, random_bytes=os.urandom
    )


async def started(disk: SimDisk) -> BrokerDirectory:
    directory = await open_in(disk)
    await directory.recover_logs(lambda _: SMALL_CONFIG)
    await directory.note_incarnation("first")
    await directory.note_epoch(BrokerEpoch(7), CLUSTER)
    return directory


# -- whose it is


async def test_directory_keeps_its_id_and_learns_its_cluster() -> None:
    disk = SimDisk()
    directory = await started(disk)
    directory_id = directory.directory_id
    assert len(directory_id) == 22
    assert await directory.close()
    disk.power_loss()
    directory = await open_in(disk, seed=1)
    assert (directory.directory_id, directory.cluster_id) == (directory_id, CLUSTER)


async def test_directory_that_was_wiped_gets_another_id() -> None:
    disk = SimDisk()
    first = (await open_in(disk, seed=1)).directory_id
    disk.crash()
    disk.wipe(PATH)
    assert (await open_in(disk, seed=2)).directory_id != first


async def test_directory_of_another_node_is_refused() -> None:
    disk = SimDisk()
    assert await (await started(disk)).close()
    with pytest.raises(InvalidConfig, match=r"belongs to node 4, but node\.id is 5"):
        await open_as(disk, 5, None)
    await open_as(disk, NODE, CLUSTER)


async def test_directory_of_another_cluster_is_refused_at_the_start_and_after_the_registration() -> None:
    disk = SimDisk()
    assert await (await started(disk)).close()
    with pytest.raises(InvalidConfig, match="belongs to cluster the-cluster"):
        await open_as(disk, NODE, "another")
    directory = await open_in(disk)
    await directory.recover_logs(lambda _: SMALL_CONFIG)
    with pytest.raises(InvalidConfig):
        await directory.note_epoch(BrokerEpoch(9), "another")


async def test_cluster_that_the_configuration_names_is_not_noted_before_it_has_taken_the_broker() -> None:
    """A wrong one is refused. Once noted in the directory, it could not be corrected any more."""
    disk = SimDisk()
    wrong = await open_as(disk, NODE, "wrong")
    assert wrong.cluster_id == "wrong", "the controllers are told, and refuse it"
    await wrong.recover_logs(lambda _: SMALL_CONFIG)
    await wrong.note_incarnation("first")
    disk.crash()
    corrected = await open_as(disk, NODE, CLUSTER)
    assert (corrected.cluster_id, corrected.directory_id) == (CLUSTER, wrong.directory_id)
    await corrected.recover_logs(lambda _: SMALL_CONFIG)
    await corrected.note_incarnation("second")
    await corrected.note_epoch(BrokerEpoch(7), CLUSTER)
    disk.crash()
    with pytest.raises(InvalidConfig, match="belongs to cluster the-cluster"):
        await open_as(disk, NODE, "wrong")


async def test_every_flipped_bit_of_the_identity_refuses_the_start() -> None:
    disk = SimDisk()
    assert await (await started(disk)).close()
    for bit in range(0, 8 * disk.size(IDENTITY), 3):
        disk.flip_bit(IDENTITY, bit)
        with pytest.raises(StorageFailed, match="cannot be read"):
            await open_in(disk)
        disk.flip_bit(IDENTITY, bit)
    await open_in(disk)


async def test_logs_without_an_identity_are_not_taken_over() -> None:
    lives = BrokerLives()
    await lives.start()
    lives.crash()
    lives.disk.unlink(IDENTITY)
    with pytest.raises(StorageFailed, match="holds logs"):
        await open_in(lives.disk)


# -- the lock


async def test_directory_belongs_to_one_process_at_a_time() -> None:
    disk = SimDisk()
    directory = await started(disk)
    with pytest.raises(StorageFailed, match="another process"):
        await open_in(disk)
    assert await directory.close()
    assert not await (await open_in(disk)).close()
    await open_in(disk)


async def test_lock_is_not_the_one_of_the_quorum_below() -> None:
    """A node that is a controller too holds both."""
    disk = SimDisk()
    await started(disk)
    disk.make_directory(f"{PATH}/quorum")
    disk.lock(f"{PATH}/quorum/.lock")


@pytest.mark.parametrize("name", ["broker-identity", "run-notes"])
async def test_directory_that_could_not_be_opened_is_not_held(name: str) -> None:
    disk = SimDisk()
    assert await (await started(disk)).close()
    disk.fault_hook = fail_path(name, lambda: os_error(errno.EIO))
    with pytest.raises(StorageFailed):
        await open_in(disk)
    disk.fault_hook = None
    await open_in(disk)


async def test_no_room_for_a_new_directory_says_so() -> None:
    with pytest.raises(DiskFull):
        await open_in(SimDisk(capacity_bytes=0))


# -- what a start says


async def test_new_directory_has_no_history() -> None:
    directory = await open_in(SimDisk())
    assert directory.start is StartKind.CLEAN
    await directory.recover_logs(lambda _: SMALL_CONFIG)
    assert directory.previous_run() is None
    assert directory.damaged() == []


async def test_every_flipped_bit_of_the_notes_leaves_a_stranger() -> None:
    lives = BrokerLives()
    await lives.start()
    assert await lives.stop()
    disk = lives.disk
    for bit in range(0, 8 * disk.size(NOTES), 5):
        disk.flip_bit(NOTES, bit)
        directory = await open_in(disk)
        assert directory.start is StartKind.LOSSY
        await directory.recover_logs(lambda _: SMALL_CONFIG)
        assert directory.previous_run() is None
        disk.crash()
        disk.flip_bit(NOTES, bit)


async def test_notes_of_another_directory_do_not_count() -> None:
    disk, other = SimDisk(), SimDisk()
    assert await (await started(disk)).close()
    assert not await (await open_in(other, seed=1)).close()
    await other.write_file(NOTES, disk.read_file(NOTES))
    directory = await open_in(other)
    await directory.recover_logs(lambda _: SMALL_CONFIG)
    assert directory.previous_run() is None


async def test_processes_that_never_served_are_named_until_one_does() -> None:
    disk = SimDisk()
    await started(disk)
    for name in ("second", "third"):
        disk.crash()
        directory = await open_in(disk)
        await directory.recover_logs(lambda _: SMALL_CONFIG)
        await directory.note_incarnation(name)
    run = directory.previous_run()
    assert run is not None
    assert (run.broker_epoch, list(run.unnoted_incarnation_ids)) == (7, ["second"])
    assert (run.is_clean, run.is_same_boot, run.is_intact) == (False, True, True)
    await directory.note_epoch(BrokerEpoch(9), CLUSTER)
    disk.crash()
    directory = await open_in(disk)
    await directory.recover_logs(lambda _: SMALL_CONFIG)
    run = directory.previous_run()
    assert run is not None
    assert (run.broker_epoch, list(run.unnoted_incarnation_ids)) == (9, [])


async def test_stop_before_an_epoch_was_noted_leaves_the_notes_of_the_last_run() -> None:
    disk = SimDisk()
    assert await (await started(disk)).close()
    directory = await open_in(disk)
    await directory.recover_logs(lambda _: SMALL_CONFIG)
    assert await directory.close()
    disk.power_loss()
    directory = await open_in(disk)
    await directory.recover_logs(lambda _: SMALL_CONFIG)
    run = directory.previous_run()
    assert run is not None
    assert (run.broker_epoch, run.is_clean) == (7, True)


# -- damaged replicas


async def test_damaged_log_is_named_and_after_a_crash_of_the_process_nothing_is_intact() -> None:
    """Bytes that fail their checks are no proof of a page cache that has outlived the process."""
    lives = BrokerLives()
    await lives.start()
    await lives.acknowledge(2)
    lives.crash()
    lives.disk.flip_bit(f"{PATH}/{FSYNC.directory_name}/{0:020d}.log", 8 * 70)
    for _ in range(2):
        directory = await open_in(lives.disk)
        await directory.recover_logs(lambda _: SMALL_CONFIG)
        assert [name.topic_id for name in directory.damaged()] == [FSYNC.topic_id]
        run = directory.previous_run()
        assert run is not None
        assert not run.is_intact
        lives.disk.crash()


async def test_damage_that_a_run_found_itself_says_nothing_about_the_other_logs() -> None:
    lives = BrokerLives()
    await lives.start()
    await lives.acknowledge(2)
    lives.disk.flip_bit(f"{PATH}/{FSYNC.directory_name}/{0:020d}.log", 8 * 70)
    log = lives.log(FSYNC)
    with pytest.raises(Exception, match="damaged"):
        log.read(log.log_start_offset, bytes_max=1000)
    lives.crash()
    directory = await open_in(lives.disk)
    await directory.recover_logs(lambda _: SMALL_CONFIG)
    assert [name.topic_id for name in directory.damaged()] == [FSYNC.topic_id]
    run = directory.previous_run()
    assert run is not None
    assert run.is_intact


async def test_log_that_cannot_be_opened_is_named_and_no_end_after_that_is_clean() -> None:
    lives = BrokerLives()
    await lives.start()
    assert await lives.stop()
    lives.disk.fault_hook = fail_path(REPLICATED.directory_name, lambda: os_error(errno.EIO), names={"list"})
    directory = await open_in(lives.disk)
    await directory.recover_logs(lambda _: SMALL_CONFIG)
    lives.disk.fault_hook = None
    assert directory.failures.keys() == {REPLICATED}
    assert [name.topic_id for name in directory.damaged()] == [REPLICATED.topic_id]
    run = directory.previous_run()
    assert run is not None
    assert (run.is_clean, run.is_intact) == (True, False)
    await directory.note_epoch(BrokerEpoch(9), CLUSTER)
    assert not await directory.close()


async def test_progress_of_a_recovery_is_told() -> None:
    lives = BrokerLives()
    await lives.start()
    lives.crash()
    directory = await open_in(lives.disk, make_context(lives.disk, SlowClock()))
    with structlog.testing.capture_logs() as told:
        await directory.recover_logs(lambda _: SMALL_CONFIG)
    events = [each for each in told if each["event"] in {"recovering_logs", "logs_recovered"}]
    assert [each.get("done") for each in events] == [None, 1, 2, None]
    assert [each["total"] for each in events[1:3]] == [2, 2]
    assert (events[-1]["event"], events[-1]["logs"]) == ("logs_recovered", 2)


class SlowClock(ManualClock):
    """Whatever is done takes a second."""

    def monotonic(self) -> float:
        self.now_ms += 1000
        return super().monotonic()
