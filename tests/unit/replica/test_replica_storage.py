"""A leader on a real log: conditional appends, syncs, and disks that fail."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable

import pytest

from quorate.broker.replica.fetch_watch import FetchWatch
from quorate.broker.replica.leadership import LogEndsLater
from quorate.chaos.models.log.log_harness import (
    EVERYTHING,
    NOW_MS,
    LogHarness,
    batch,
    os_error,
    producers_of,
    record_operations,
)
from quorate.chaos.models.replica_set.replica_harness import ReplicaHarness
from quorate.chaos.sim.disk_faults import NEED_DESCRIPTORS, fail_nth, fail_path
from quorate.core.config import Durability
from quorate.core.ids import BrokerEpoch, BrokerId, LeaderEpoch, Offset, TimestampMs
from quorate.errors import (
    CorruptBatch,
    DiskFull,
    NotEnoughReplicas,
    NotEnoughReplicasAfterAppend,
    NotLeaderOrFollower,
    OffsetNotAvailable,
    OffsetOutOfRange,
    OutOfOrderSequence,
    Unavailable,
)

FROM_A_PRODUCER = batch(b"x", producer=(7, 0, 0))


class StoredReplica(ReplicaHarness):
    """Broker 1 with its log on a simulated disk."""

    def __init__(self, log: LogHarness) -> None:
        super().__init__(log.log)
        self.disk = log.disk
        self.log = log.log

    def follow(self, broker_id: int, offset: int) -> None:
        self.leadership.follower_at(
            BrokerId(broker_id),
            BrokerEpoch(100 + broker_id),
            Offset(offset),
            LeaderEpoch(self.log.latest_leader_epoch if offset else -1),
            Offset(0),
        )
        self.partition.validate()


async def stored_replica() -> StoredReplica:
    log = LogHarness()
    await log.open()
    return StoredReplica(log)


async def turns(count: int = 20) -> None:
    """Let background work happen."""
    for _ in range(count):
        await asyncio.sleep(0)


# -- conditional append


async def test_conditional_append_appends_where_the_log_ends() -> None:
    replica = await stored_replica()
    leadership = replica.lead(isr=(1, 2))
    appended = leadership.append_if(batch(producer=(7, 0, 0)), Offset(0))
    assert not isinstance(appended, LogEndsLater)
    assert (appended.base_offset, appended.is_duplicate) == (0, False)


async def test_conditional_append_that_comes_too_late_learns_where_the_log_ends() -> None:
    replica = await stored_replica()
    leadership = replica.lead(isr=(1, 2))
    leadership.append(batch(b"a", b"b", b"c"), acks_all=True)
    assert leadership.append_if(batch(producer=(7, 0, 0)), Offset(1)) == LogEndsLater(Offset(3))
    # To be told only once that is committed: a refusal must not rest on a record that may vanish.
    assert leadership.when_committed(Offset(3), replica.outcomes.append) is not None
    replica.follow(2, 3)
    assert replica.outcomes == [None]


async def test_refused_conditional_append_leaves_no_trace_of_its_producer() -> None:
    replica = await stored_replica()
    leadership = replica.lead(isr=(1, 2))
    leadership.append(batch(), acks_all=True)
    leadership.append_if(batch(producer=(7, 0, 0)), Offset(0))
    with pytest.raises(OffsetNotAvailable):
        leadership.append_if(batch(producer=(7, 0, 0)), Offset(5))
    assert producers_of(replica.log) == {}
    appended = leadership.append_if(batch(producer=(7, 0, 0)), Offset(1))
    assert not isinstance(appended, LogEndsLater)


async def test_retry_of_a_conditional_append_gives_the_original_wherever_the_log_ends_by_now() -> None:
    replica = await stored_replica()
    leadership = replica.lead(isr=(1, 2))
    first = batch(producer=(7, 0, 0))
    leadership.append_if(first, Offset(0))
    leadership.append(batch(b"another"), acks_all=True)
    again = leadership.append_if(first, Offset(0))
    assert not isinstance(again, LogEndsLater)
    assert (again.base_offset, again.is_duplicate) == (0, True)
    with pytest.raises(OutOfOrderSequence):
        leadership.append_if(batch(producer=(7, 0, 5)), Offset(2))


@pytest.mark.parametrize("is_conditional", [True, False])
async def test_retry_of_a_committed_batch_is_not_refused_when_members_are_missing(
    *, is_conditional: bool
) -> None:
    """It would be told that nothing was written, and it was (rules 19 and 50)."""
    replica = await stored_replica()
    leadership = replica.lead(isr=(1, 2))
    first = batch(producer=(7, 0, 0))
    leadership.append_if(first, Offset(0))
    replica.follow(2, 1)
    replica.apply(replica.state(isr=(1,)))
    again = (
        leadership.append_if(first, Offset(0)) if is_conditional else leadership.append(first, acks_all=True)
    )
    assert not isinstance(again, LogEndsLater)
    assert (again.base_offset, again.is_duplicate) == (0, True)
    assert leadership.when_committed(Offset(1), replica.outcomes.append) is None
    with pytest.raises(NotEnoughReplicas):
        leadership.append(batch(producer=(7, 0, 1)), acks_all=True)


async def test_retry_of_a_batch_that_is_not_committed_is_unknown_when_members_are_missing() -> None:
    replica = await stored_replica()
    leadership = replica.lead(isr=(1, 2))
    first = batch(producer=(7, 0, 0))
    leadership.append(first, acks_all=True)
    replica.apply(replica.state(isr=(1,)))
    assert leadership.append(first, acks_all=True).is_duplicate
    with pytest.raises(NotEnoughReplicasAfterAppend):
        leadership.when_committed(Offset(1), replica.outcomes.append)


async def test_bytes_that_are_no_batch_are_refused() -> None:
    replica = await stored_replica()
    leadership = replica.lead(isr=(1, 2))
    with pytest.raises(CorruptBatch):
        leadership.append_if(batch()[:-1], Offset(0))
    with pytest.raises(CorruptBatch):
        leadership.append(batch()[:-1], acks_all=True)
    assert replica.partition.leadership is leadership


# -- durability


async def test_synced_topics_commit_what_is_on_the_leaders_device_too() -> None:
    replica = await stored_replica()
    leadership = replica.lead(isr=(1, 2), durability=Durability.FSYNC)
    leadership.append(batch(), acks_all=True)
    stored: list[object] = []
    assert leadership.when_stored(Offset(1), stored.append) is not None
    replica.wait_for(1)
    replica.follow(2, 1)
    assert (replica.high_watermark, stored, replica.outcomes) == (0, [], [])
    await turns()
    assert (replica.high_watermark, stored, replica.outcomes) == (1, [None], [None])
    assert leadership.when_stored(Offset(1), stored.append) is None
    replica.partition.stop()
    await replica.partition.wait_stopped()


async def test_topics_that_are_not_synced_are_stored_at_the_append() -> None:
    replica = await stored_replica()
    leadership = replica.lead(isr=(1, 2))
    leadership.append(batch(), acks_all=False)
    assert leadership.when_stored(Offset(1), replica.outcomes.append) is None


async def test_leader_that_is_told_to_sync_syncs_what_it_has_and_keeps_its_high_watermark() -> None:
    replica = await stored_replica()
    leadership = replica.lead(isr=(1,), min_isr=1)
    leadership.append(batch(), acks_all=True)
    assert (replica.high_watermark, replica.log.recovery_point) == (1, 0)
    replica.apply(replica.state(durability=Durability.FSYNC))
    assert replica.high_watermark == 1
    leadership.append(batch(), acks_all=True)
    assert replica.high_watermark == 1
    await turns()
    assert (replica.high_watermark, replica.log.recovery_point) == (2, 2)


async def lacking_descriptors() -> StoredReplica:
    """It leads a topic that is synced, in which a record waits to be."""
    replica = await stored_replica()
    replica.lead(isr=(1, 2), durability=Durability.FSYNC)
    replica.disk.fault_hook = fail_path("", lambda: os_error(errno.EMFILE), names=NEED_DESCRIPTORS)
    replica.leadership.append(FROM_A_PRODUCER, acks_all=True)
    replica.wait_for(1)
    await turns()
    assert [type(each) for each in replica.outcomes] == [Unavailable]
    return replica


async def test_sync_that_lacked_a_descriptor_is_tried_again_for_whoever_sends_the_record_once_more() -> None:
    """A duplicate is no append: nobody else would ask for a sync."""
    replica = await lacking_descriptors()
    replica.clock.advance(3.0)
    await turns()
    replica.disk.fault_hook = None
    assert replica.leadership.append(FROM_A_PRODUCER, acks_all=True).is_duplicate
    replica.wait_for(1)
    replica.follow(2, 1)
    replica.clock.advance(1.0)
    await turns()
    assert replica.outcomes[-1] is None
    assert replica.high_watermark == 1


async def test_leader_learns_its_high_watermark_without_an_append_when_there_are_descriptors_again() -> None:
    replica = await stored_replica()
    replica.lead(isr=(1, 2)).append(batch(b"a", b"b"), acks_all=True)
    replica.disk.fault_hook = fail_path("", lambda: os_error(errno.EMFILE), names=NEED_DESCRIPTORS)
    leadership = replica.lead(isr=(1, 2), leader_epoch=1, durability=Durability.FSYNC)
    replica.follow(2, 2)
    await turns()
    assert not leadership.is_high_watermark_known
    replica.disk.fault_hook = None
    replica.clock.advance(1.0)
    await turns()
    assert leadership.is_high_watermark_known
    assert leadership.high_watermark == 2


async def test_attempts_of_a_sync_that_lacks_descriptors_have_pauses() -> None:
    replica = await lacking_descriptors()
    trace = record_operations(replica.disk)
    for _ in range(100):
        replica.clock.advance(0.1)
        await turns()
    assert 5 < sum(operation.name in NEED_DESCRIPTORS for operation in trace) < 25


async def test_leader_that_waits_for_descriptors_stops_at_once() -> None:
    replica = await lacking_descriptors()
    replica.partition.stop()
    await asyncio.wait_for(replica.partition.wait_stopped(), timeout=5)
    assert replica.clock.timer_count == 0


async def test_sync_of_a_leadership_that_is_over_acknowledges_nothing() -> None:
    replica = await stored_replica()
    leadership = replica.lead(isr=(1,), min_isr=1, durability=Durability.FSYNC)
    leadership.append(batch(), acks_all=True)
    replica.wait_for(1)
    await asyncio.sleep(0)
    replica.apply(replica.state(leader=2, leader_epoch=1))
    await replica.partition.wait_stopped()
    assert [type(each) for each in replica.outcomes] == [Unavailable]
    assert replica.high_watermark == 0


async def test_leader_tells_the_controller_once_every_member_has_synced_in_this_epoch() -> None:
    """Rule 45: all that was written before the topic was changed is on every member's device."""
    replica = await stored_replica()
    replica.lead(isr=(1, 2, 3)).append(batch(), acks_all=True)
    replica.follow(2, 1)
    replica.follow(3, 1)
    leadership = replica.lead(leader_epoch=1, durability=Durability.FSYNC)
    replica.follow(2, 1)
    await turns()
    assert replica.log.recovery_point == 1
    assert leadership.next_alteration() is None, "broker 3 has not fetched in this epoch"
    replica.follow(3, 1)
    wish = replica.ask()
    assert (wish.is_synced, [each.broker_id for each in wish.isr]) == (True, [1, 2, 3])
    replica.grant([1, 2, 3], wish.partition_epoch + 1, leader_epoch=1, is_synced=True)
    replica.follow(2, 1)
    assert leadership.next_alteration() is None


async def test_leader_that_has_not_synced_its_own_log_tells_nothing() -> None:
    replica = await stored_replica()
    replica.lead(isr=(1, 2)).append(batch(), acks_all=True)
    leadership = replica.lead(isr=(1, 2), leader_epoch=1, durability=Durability.FSYNC)
    replica.follow(2, 1)
    assert leadership.next_alteration() is None
    await turns()
    assert replica.ask().is_synced


async def test_setting_that_came_in_the_middle_of_an_epoch_says_nothing_about_its_followers() -> None:
    replica = await stored_replica()
    leadership = replica.lead(isr=(1, 2))
    leadership.append(batch(), acks_all=True)
    replica.follow(2, 1)
    replica.apply(replica.state(durability=Durability.FSYNC))
    await turns()
    replica.follow(2, 1)
    assert leadership.next_alteration() is None


async def test_with_fewer_members_than_min_isr_nothing_is_told_for_others_may_count() -> None:
    replica = await stored_replica()
    leadership = replica.lead(isr=(1, 2), min_isr=3, durability=Durability.FSYNC)
    replica.follow(2, 0)
    await turns()
    assert leadership.next_alteration() is None


# -- disks


async def test_full_disk_refuses_the_append_and_nothing_else() -> None:
    replica = await stored_replica()
    leadership = replica.lead(isr=(1,), min_isr=1)
    leadership.append(batch(), acks_all=True)
    replica.disk.fault_hook = fail_nth(1, os_error(errno.ENOSPC), names={"pwritev"})
    with pytest.raises(DiskFull):
        leadership.append(batch(), acks_all=True)
    assert replica.partition.failure is None
    assert replica.partition.leadership is leadership


async def test_failing_disk_ends_the_leadership_and_leaves_the_append_unknown() -> None:
    replica = await stored_replica()
    leadership = replica.lead()
    leadership.append(batch(), acks_all=True)
    replica.wait_for(1)
    replica.disk.fault_hook = fail_nth(1, os_error(errno.EIO), names={"pwritev"})
    with pytest.raises(Unavailable):
        leadership.append(batch(), acks_all=True)
    assert replica.partition.leadership is None
    assert len(replica.failures) == 1
    assert [type(each) for each in replica.outcomes] == [Unavailable]
    with pytest.raises(NotLeaderOrFollower):
        replica.partition.require_leadership(None)


@pytest.mark.parametrize("who", ["consumer", "follower", "list offsets"])
async def test_damage_found_by_a_read_ends_the_leadership(who: str) -> None:
    """Rule 44: never served; the reader is sent to whoever leads next."""
    replica = await stored_replica()
    leadership = replica.lead(isr=(1,), min_isr=1)
    leadership.append(batch(b"a record"), acks_all=True)
    replica.disk.flip_bit(f"{replica.log.directory}/{0:020}.log", 8 * 70)
    reads: dict[str, Callable[[], object]] = {
        "consumer": lambda: leadership.read(Offset(0), bytes_max=EVERYTHING),
        "follower": lambda: leadership.read_for_follower(Offset(0), bytes_max=EVERYTHING),
        "list offsets": lambda: leadership.find_timestamp(TimestampMs(0)),
    }
    with pytest.raises(NotLeaderOrFollower):
        reads[who]()
    assert replica.partition.leadership is None
    assert replica.partition.failure is not None
    assert len(replica.failures) == 1
    # Fetched anew it is a replica like any other.
    replica.apply(replica.state(leader=2, leader_epoch=1))
    assert replica.partition.is_following(LeaderEpoch(1))
    with pytest.raises(NotLeaderOrFollower):
        replica.partition.require_reader(1, allow_follower=True)
    await replica.log.reset_to(Offset(0))
    replica.partition.begin_waiting_leadership()
    assert replica.partition.failure is None


# -- reading


async def test_consumers_read_below_the_high_watermark_and_followers_to_the_end() -> None:
    replica = await stored_replica()
    leadership = replica.lead(isr=(1, 2))
    for _ in range(3):
        leadership.append(batch(), acks_all=True)
    replica.follow(2, 2)
    assert leadership.read(Offset(0), bytes_max=EVERYTHING).next_offset == 2
    assert leadership.read(Offset(2), bytes_max=EVERYTHING).batches == b""
    assert leadership.read_for_follower(Offset(0), bytes_max=EVERYTHING).next_offset == 3
    with pytest.raises(OffsetOutOfRange):
        leadership.read(Offset(4), bytes_max=EVERYTHING)
    found = leadership.find_timestamp(TimestampMs(NOW_MS))
    assert found is not None
    assert found.offset == 0


async def test_follower_serves_who_asks_for_it_and_what_it_knows_to_be_committed() -> None:
    """Rule 18."""
    replica = await stored_replica()
    leadership = replica.lead(isr=(1, 2))
    for _ in range(3):
        leadership.append(batch(), acks_all=True)
    replica.follow(2, 2)
    replica.apply(replica.state(leader=2, leader_epoch=1))
    with pytest.raises(NotLeaderOrFollower):
        replica.partition.require_reader(1, allow_follower=False)
    reader = replica.partition.require_reader(1, allow_follower=True)
    assert (reader.high_watermark, reader.log_start_offset) == (2, 0)
    assert reader.read(Offset(0), bytes_max=EVERYTHING).next_offset == 2
    assert reader.read(Offset(3), bytes_max=EVERYTHING).batches == b""


async def test_follower_shows_nothing_that_may_be_given_up_before_it_agrees_with_its_leader() -> None:
    """Rules 11 and 18: the leader was forced, and may lack what was committed here."""
    replica = await stored_replica()
    leadership = replica.lead(isr=(1, 2))
    leadership.append(batch(), acks_all=True)
    replica.follow(2, 1)
    replica.apply(replica.state(leader=2, leader_epoch=1, unclean=(1,)))
    with pytest.raises(NotLeaderOrFollower) as refused:
        replica.partition.require_reader(1, allow_follower=True)
    assert refused.value.facts["leader"] == 2
    # Its log is a prefix of the leader's, or the leader would have said so.
    replica.partition.advance_high_watermark_from_leader(Offset(1))
    assert replica.partition.require_reader(1, allow_follower=True).high_watermark == 1
    # The next leader may not be asked: it need not have followed the one that was forced.
    replica.apply(replica.state(leader=3, leader_epoch=2, unclean=(1,)))
    with pytest.raises(NotLeaderOrFollower):
        replica.partition.require_reader(2, allow_follower=True)


async def test_follower_that_has_records_of_an_unclean_epoch_shows_what_is_committed() -> None:
    replica = await stored_replica()
    leadership = replica.lead(isr=(1, 2), leader_epoch=1)
    leadership.append(batch(), acks_all=True)
    replica.follow(2, 1)
    replica.apply(replica.state(leader=2, leader_epoch=2, unclean=(1,)))
    assert replica.partition.require_reader(2, allow_follower=True).high_watermark == 1


async def test_waiting_fetch_wakes_when_enough_bytes_are_committed() -> None:
    replica = await stored_replica()
    leadership = replica.lead(isr=(1, 2))
    watch = FetchWatch(3 * len(batch()))
    replica.partition.watch(watch)
    for count in range(1, 4):
        assert not watch.done.done()
        leadership.append(batch(), acks_all=True)
        replica.follow(2, count)
    assert watch.done.done()
    replica.partition.unwatch(watch)


async def test_waiting_fetch_wakes_when_another_replica_leads() -> None:
    replica = await stored_replica()
    replica.lead()
    watch = FetchWatch(1)
    replica.partition.watch(watch)
    replica.apply(replica.state(leader=2, leader_epoch=1))
    assert watch.done.done()
