"""Stories of one follower: each is about one rule, and fails if the rule is off."""

from __future__ import annotations

from quorate.chaos.models.follower.replicas import leader_batch
from quorate.chaos.models.follower.scripted_leader import FollowerHarness, update, with_follower
from quorate.core.config import Durability
from quorate.core.ids import LeaderEpoch
from quorate.errors import OffsetOutOfRange, ReplicaDiverged, StorageFailed

__all__ = [
    "a_cut_below_the_high_watermark_is_refused",
    "a_failing_disk_is_reported_in_each_epoch_that_counts_on_the_replica",
    "a_follower_before_the_leaders_start_begins_anew",
    "a_position_that_waited_is_not_named_before_the_sync",
    "an_answer_of_an_older_epoch_is_dropped",
    "an_epoch_without_records_is_no_reason_to_begin_anew",
    "what_a_leader_vouches_for_is_kept",
    "what_no_leader_vouches_for_is_dropped",
]


def an_answer_of_an_older_epoch_is_dropped() -> None:
    """Rule 10: batches, cuts and high watermarks alike."""

    async def story(harness: FollowerHarness) -> None:
        partition = await harness.open_with((0, 1), (1, 1))
        leader = harness.follow_leader(2, 2)
        await leader.position()
        leader = harness.follow_leader(2, 3)
        await leader.position()
        leader.send(update(2, leader_batch(2, 2)), update(2, diverging=(1, 1)), update(2, high_watermark=2))
        leader.send(update(3, leader_batch(2, 3, b"right")))
        assert (await leader.position()).fetch_offset == 3
        assert partition.log.latest_leader_epoch == 3
        assert partition.high_watermark == 0

    with_follower(story)


def a_cut_below_the_high_watermark_is_refused() -> None:
    """Rule 11: in this epoch and in every later one, for this may be the last copy."""

    async def story(harness: FollowerHarness) -> None:
        partition = await harness.open_with((0, 1), (1, 1), (2, 1), high_watermark=2)
        leader = harness.follow_leader(2, 2)
        await leader.position()
        leader.send(update(2, diverging=(1, 1)))
        await harness.until(lambda: bool(harness.failed))
        assert isinstance(partition.failure, ReplicaDiverged)
        assert partition.log.log_end_offset == 3
        harness.follow_leader(3, 3, isr=(2, 3))
        await harness.clock.sleep(5)
        assert not harness.leaders[3].has_position
        assert partition.log.log_end_offset == 3

    with_follower(story)


def a_failing_disk_is_reported_in_each_epoch_that_counts_on_the_replica() -> None:
    """Rule 44: a report is void in a later epoch, and its leader would wait for the replica until it lags."""

    async def story(harness: FollowerHarness) -> None:
        partition = await harness.open_with((0, 1))
        harness.follow_leader(2, 2)
        partition.fail(StorageFailed("a failed write could not be undone"))
        reported = []
        for epoch, isr, elr in ((3, (1, 2), ()), (4, (2,), (1,)), (5, (2, 3), ())):
            harness.follow_leader(2, epoch, isr=isr, elr=elr)
            # The same epoch once more is nothing new.
            harness.follow_leader(2, epoch, isr=isr, elr=elr, partition_epoch=10 * epoch + 1)
            reported.append(len(harness.failed))
        assert reported == [2, 3, 3]

    with_follower(story)


def a_follower_before_the_leaders_start_begins_anew() -> None:
    """Rule 12."""

    async def story(harness: FollowerHarness) -> None:
        partition = await harness.open_with((0, 1), (1, 1), high_watermark=1)
        leader = harness.follow_leader(2, 2)
        await leader.position()
        leader.send(update(2, error=OffsetOutOfRange("deleted"), log_start_offset=70))
        position = await leader.position()
        assert (position.fetch_offset, position.last_fetched_epoch, position.log_start_offset) == (70, -1, 70)
        assert (partition.high_watermark, partition.log.log_start_offset) == (70, 70)
        leader.send(update(2, leader_batch(70, 1, b"next"), high_watermark=71))
        assert (await leader.position()).fetch_offset == 71

    with_follower(story)


def what_no_leader_vouches_for_is_dropped() -> None:
    """Rules 8 and 12: all that the logs may share is deleted at the leader: where they part nobody knows."""

    async def story(harness: FollowerHarness) -> None:
        partition = await harness.open_with((0, 1), (1, 1), (2, 1), (3, 1), high_watermark=1)
        leader = harness.follow_leader(2, 2)
        await leader.position()
        for _ in range(2):  # Cut to where the leader begins, and not vouched for either.
            leader.send(update(2, diverging=(1, 3), high_watermark=5, log_start_offset=3))
            position = await leader.position()
        named = (position.fetch_offset, position.last_fetched_epoch, position.log_start_offset)
        assert named == (3, -1, 3), "what was never committed is kept, and would be shown as committed"
        leader.send(update(2, leader_batch(3, 2, b"next"), high_watermark=4, log_start_offset=3))
        assert (await leader.position()).fetch_offset == 4
        assert (partition.log.log_start_offset, partition.high_watermark) == (3, 4)

    with_follower(story)


def what_a_leader_vouches_for_is_kept() -> None:
    """Rules 12 and 49: it holds all that is committed, and a tail that is not. Only that has to go."""

    async def story(harness: FollowerHarness) -> None:
        partition = await harness.open_with((0, 1), (1, 1), (2, 1), (3, 1), high_watermark=1)
        leader = harness.follow_leader(2, 2)
        await leader.position()
        leader.send(update(2, diverging=(1, 3), high_watermark=3, log_start_offset=3))
        position = await leader.position()
        named = (position.fetch_offset, position.last_fetched_epoch, position.log_start_offset)
        assert named == (3, 1, 0), "what it knows of producers went with its log"
        leader.send(update(2, leader_batch(3, 2, b"next"), high_watermark=4, log_start_offset=3))
        position = await leader.position()
        assert (position.fetch_offset, position.log_start_offset) == (4, 3)
        assert partition.high_watermark == 4

    with_follower(story)


def an_epoch_without_records_is_no_reason_to_begin_anew() -> None:
    """Rules 12 and 49: it led, and wrote nothing. Nobody has a record of that epoch."""

    async def story(harness: FollowerHarness) -> None:
        partition = await harness.open_with((0, 1), high_watermark=1)
        partition.log.become_leader(LeaderEpoch(2))
        leader = harness.follow_leader(2, 3)
        position = await leader.position()
        assert (position.fetch_offset, position.last_fetched_epoch) == (1, 2)
        leader.send(update(3, diverging=(1, 1), high_watermark=1, log_start_offset=1))
        position = await leader.position()
        named = (position.fetch_offset, position.last_fetched_epoch, position.log_start_offset)
        assert named == (1, 1, 0), "what it knows of producers went with its log"

    with_follower(story)


def a_position_that_waited_is_not_named_before_the_sync() -> None:
    """Rules 16 and 45: the topic was changed to fsync, and the same broker leads on."""

    async def story(harness: FollowerHarness) -> None:
        partition = await harness.open_with((0, 1), (1, 1))
        await harness.open(1)
        leader = harness.follow_leader(2, 1, number=1)
        await leader.position()
        harness.follow_leader(2, 1)
        harness.durability = Durability.FSYNC
        harness.follow_leader(2, 2)
        position = await leader.position()
        assert (position.leader_epoch, position.fetch_offset) == (2, 2)
        assert partition.log.recovery_point == 2, "acknowledged before the sync"

    with_follower(story, sync_delay_s=0.5)
