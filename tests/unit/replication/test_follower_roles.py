"""Changes of role, of leader and of connection, while something is under way."""

from __future__ import annotations

import asyncio

import pytest

from quorate.broker.replica.partition import Partition
from quorate.broker.replication import leader_fetcher
from quorate.chaos.models.follower.replicas import bytes_of, image, leader_batch
from quorate.chaos.models.follower.scripted_leader import (
    FollowerHarness,
    ScriptedLeader,
    update,
    with_follower,
)
from quorate.chaos.sim.clock import Simulation, run_simulation
from quorate.core.config import Durability
from quorate.core.ids import NO_LEADER_EPOCH
from quorate.errors import LogDamaged, OffsetOutOfRange, UnknownServerError


def test_a_follower_moves_to_the_new_leader_and_tells_the_old_one() -> None:
    async def script(harness: FollowerHarness) -> None:
        await harness.open(0)
        await harness.open(1)
        old = harness.follow_leader(2, 1, number=0)
        harness.follow_leader(2, 1, number=1)
        await old.position()
        await old.position()
        new = harness.follow_leader(3, 2, number=0)
        assert (await new.position()).leader_epoch == 2
        await harness.until(lambda: any(request.stopped for request in old.requests))
        old.send(update(1, leader_batch(0, 1, b"too late"), number=0))
        old.send(update(1, leader_batch(0, 1, b"in time"), number=1))
        await old.position()
        assert harness.partitions[0].log.log_end_offset == 0
        assert harness.partitions[1].log.log_end_offset == 1

    with_follower(script)


def test_positions_of_all_partitions_leave_in_one_request_with_the_greeting() -> None:
    async def script(harness: FollowerHarness) -> None:
        for number in range(20):
            await harness.open(number)
        for number in range(20):
            harness.follow_leader(2, 1, number=number)
        leader = harness.leaders[2]
        await leader.position()
        assert len(leader.requests) == 1
        assert len(leader.requests[0].positions) == 20
        leader.send(*(update(1, leader_batch(0, 1), number=number) for number in range(20)))
        await harness.until(lambda: len(leader.requests) > 1)
        assert len(leader.requests[1].positions) == 20

    with_follower(script)


def test_a_broken_stream_is_opened_again_and_begins_with_the_positions() -> None:
    async def script(harness: FollowerHarness) -> None:
        await harness.open()
        leader = harness.follow_leader(2, 1)
        await leader.position()
        leader.send(update(1, leader_batch(0, 1)))
        assert (await leader.position()).fetch_offset == 1
        harness.network.break_all_connections("b2")
        assert (await leader.position()).fetch_offset == 1
        leader.break_stream(UnknownServerError("?"))
        assert (await leader.position()).fetch_offset == 1
        assert len(leader.hellos) == 3

    with_follower(script)


def test_a_leader_that_was_not_there_is_found_at_once_when_metadata_names_it_again() -> None:
    async def script(harness: FollowerHarness) -> None:
        await harness.open()
        leader = harness.leaders[2]
        leader.stop()
        harness.follow_leader(2, 1)
        await harness.clock.sleep(120)
        await leader.start()
        began = harness.clock.monotonic()
        harness.follow_leader(2, 2)
        assert (await leader.position()).leader_epoch == 2
        assert harness.clock.monotonic() - began < 0.02

    with_follower(script)


async def _diverge(harness: FollowerHarness) -> tuple[Partition, ScriptedLeader]:
    """A cut to offset 1 is under way, and takes its time."""
    partition = await harness.open_with((0, 1), (1, 1), (2, 1))
    leader = harness.follow_leader(2, 2)
    await leader.position()
    leader.send(update(2, diverging=(1, 1)))
    await harness.until(lambda: partition.log.is_being_cut)
    return partition, leader


def test_a_cut_under_way_is_finished_before_the_replica_leads() -> None:
    async def script(harness: FollowerHarness) -> None:
        partition, _ = await _diverge(harness)
        harness.follow(image(leader=1, leader_epoch=3))
        assert partition.leadership is None
        await harness.until(lambda: partition.leadership is not None)
        assert partition.leadership is not None
        assert partition.leadership.epoch_start_offset == partition.log.log_end_offset == 1

    with_follower(script, sync_delay_s=1.0)


def test_a_cut_under_way_is_finished_before_a_position_is_named_in_the_next_epoch() -> None:
    async def script(harness: FollowerHarness) -> None:
        partition, _ = await _diverge(harness)
        leader = harness.follow_leader(3, 3)
        position = await leader.position()
        assert (position.leader_epoch, position.fetch_offset) == (3, 1)
        assert partition.log.log_end_offset == 1

    with_follower(script, sync_delay_s=1.0)


def test_a_cut_that_has_not_begun_when_the_epoch_ends_never_does() -> None:
    async def script(harness: FollowerHarness) -> None:
        partition = await harness.open_with((0, 1), (1, 1), (2, 1))
        leader = harness.follow_leader(2, 2)
        await leader.position()
        fetcher = next(iter(harness.fetchers._fetchers.values()))
        # In the same turn of the loop: the task that cuts has not run yet.
        fetcher._take(update(2, diverging=(1, 1)))
        harness.follow(image(leader=1, leader_epoch=3))
        assert partition.leadership is not None
        await harness.clock.sleep(1)
        assert partition.log.log_end_offset == 3

    with_follower(script)


def test_a_sync_of_an_earlier_epoch_names_nothing_in_the_next() -> None:
    async def script(harness: FollowerHarness) -> None:
        partition = await harness.open()
        old = harness.follow_leader(2, 1)
        await old.position()
        old.send(update(1, leader_batch(0, 1)))
        await harness.until(lambda: partition.log.log_end_offset == 1)
        new = harness.follow_leader(3, 2)
        assert (await new.position()).fetch_offset == 1
        assert partition.log.recovery_point == 1
        await harness.clock.sleep(5)
        assert not new.has_position
        assert not old.has_position

    with_follower(script, durability=Durability.FSYNC, sync_delay_s=1.0)


def test_a_position_that_waited_since_the_epoch_before_is_not_named_of_a_damaged_log() -> None:
    """Rule 44: it is about to be dropped, and a leader that counts it would admit an empty replica."""

    async def script(harness: FollowerHarness) -> None:
        partition = await harness.open_with((0, 1), (1, 1), high_watermark=2)
        await harness.open(1)
        leader = harness.follow_leader(2, 2, number=1)
        await leader.position()
        harness.follow_leader(2, 2)
        _damage(harness, partition)
        harness.follow_leader(2, 3, isr=(2, 3))
        position = await leader.position()
        assert (position.leader_epoch, position.fetch_offset) == (3, 0)

    with_follower(script)


def _damage(harness: FollowerHarness, partition: Partition) -> None:
    """A bit of the last batch rots; a read finds out."""
    directory = partition.log.directory
    segments = sorted(name for name in harness.disk.list(directory) if name.endswith(".log"))
    path = f"{directory}/{segments[-1]}"
    harness.disk.flip_bit(path, 8 * (harness.disk.size(path) - 1))
    try:
        bytes_of(partition)
    except LogDamaged as damage:
        partition.fail(damage)
    assert partition.log.damage is not None


def test_rule_44_a_damaged_replica_is_reported_and_follows_no_more_in_that_epoch() -> None:
    async def script(harness: FollowerHarness) -> None:
        partition = await harness.open_with((0, 1), (1, 1))
        leader = harness.follow_leader(2, 2)
        await leader.position()
        _damage(harness, partition)
        leader.send(update(2, leader_batch(2, 2)))
        # Not in the ISR, in the same epoch, over a new connection, told again: none of it matters.
        harness.follow_leader(2, 2, isr=(2, 3), partition_epoch=21)
        leader.break_stream(UnknownServerError("?"))
        await harness.clock.sleep(5)
        assert not leader.has_position
        assert harness.failed[0] is partition
        assert partition.log.damage is not None

    with_follower(script)


def test_rule_44_it_is_refetched_in_a_new_epoch_once_nobody_counts_on_it() -> None:
    async def script(harness: FollowerHarness) -> None:
        partition = await harness.open_with((0, 1), (1, 1), high_watermark=2)
        leader = harness.follow_leader(2, 2)
        await leader.position()
        _damage(harness, partition)
        for isr, elr in (((1, 2), ()), ((2,), (1,))):
            epoch = partition.leader_epoch + 1
            harness.follow_leader(2, epoch, isr=isr, elr=elr)
            await harness.clock.sleep(5)
            assert not leader.has_position, "it may be elected: it must not drop what it has"
            assert len(harness.failed) == epoch - 1, "whoever counts on it is told again"
        harness.follow_leader(2, 5, isr=(2, 3))
        position = await leader.position()
        assert (position.fetch_offset, position.last_fetched_epoch) == (0, -1)
        assert partition.log.damage is None
        leader.send(update(5, error=OffsetOutOfRange("deleted"), log_start_offset=1))
        assert (await leader.position()).fetch_offset == 1
        leader.send(update(5, leader_batch(1, 1), high_watermark=2))
        assert (await leader.position()).fetch_offset == 2
        assert partition.failure is None

    with_follower(script)


def test_rule_44_damage_after_a_refetch_waits_for_the_controller_again() -> None:
    async def script(harness: FollowerHarness) -> None:
        partition = await harness.open_with((0, 1), (1, 1))
        _damage(harness, partition)
        leader = harness.follow_leader(2, 2, isr=(2, 3))
        await leader.position()
        leader.send(update(2, leader_batch(0, 1), leader_batch(1, 1)))
        await leader.position()
        _damage(harness, partition)
        leader.send(update(2, leader_batch(2, 2)))
        await harness.clock.sleep(5)
        assert not leader.has_position
        assert partition.log.damage is not None

    with_follower(script)


def test_rule_44_records_of_an_epoch_that_there_never_was_are_damage_and_refetched() -> None:
    async def script(harness: FollowerHarness) -> None:
        partition = await harness.open_with((0, 1), (1, 1 << 15))
        leader = harness.follow_leader(2, 2, isr=(2, 3))
        assert (await leader.position()).fetch_offset == 0
        assert partition.log.latest_leader_epoch == NO_LEADER_EPOCH

    with_follower(script)


def test_rule_44_damage_that_was_there_at_the_start_is_refetched_in_the_first_epoch() -> None:
    async def script(harness: FollowerHarness) -> None:
        partition = await harness.open_with((0, 1), (1, 1))
        _damage(harness, partition)
        await partition.log.abandon()
        partition = await harness.open()
        assert partition.log.damage is not None
        leader = harness.follow_leader(2, 2, isr=(2, 3))
        assert (await leader.position()).fetch_offset == 0
        assert partition.log.damage is None

    with_follower(script)


def test_broken_invariant_ends_the_broker_and_not_only_the_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rule 1: dialled again and again, nobody would hear of it."""

    async def main(simulation: Simulation) -> None:
        harness = FollowerHarness(simulation, durability=Durability.REPLICATED, sync_delay_s=0.002)
        await harness.start()
        running = asyncio.create_task(harness.fetchers.run())
        await harness.open()
        leader = harness.follow_leader(2, 1)
        await leader.position()

        def broken(*_: object) -> None:
            raise AssertionError("only the leader moves the high watermark")

        monkeypatch.setattr(leader_fetcher, "take_update", broken)
        leader.send(update(1, leader_batch(0, 1)))
        await asyncio.wait([running], timeout=5)
        assert isinstance(_only_cause(running.exception()), AssertionError)

    run_simulation(main, seed=1)


def _only_cause(error: BaseException | None) -> BaseException | None:
    while isinstance(error, BaseExceptionGroup):
        [error] = error.exceptions
    return error
