"""What a follower does with each answer of a leader, rule by rule."""

from __future__ import annotations

import pytest

from quorate.chaos.models.follower import follower_stories
from quorate.chaos.models.follower.replicas import bytes_of, image, leader_batch
from quorate.chaos.models.follower.scripted_leader import FollowerHarness, update, with_follower
from quorate.core.config import Durability
from quorate.core.ids import Offset
from quorate.errors import (
    NotLeaderOrFollower,
    OffsetOutOfRange,
    StorageFailed,
    UnknownLeaderEpoch,
    UnknownServerError,
)


def test_names_its_end_and_its_last_epoch_and_who_it_is() -> None:
    async def script(harness: FollowerHarness) -> None:
        await harness.open_with((0, 1), (1, 1), (2, 3))
        leader = harness.follow_leader(2, 4)
        position = await leader.position()
        assert (position.fetch_offset, position.last_fetched_epoch, position.leader_epoch) == (3, 3, 4)
        assert (leader.hellos[0].broker_id, leader.hellos[0].broker_epoch, leader.hellos[0].leader_id) == (
            1,
            1,
            2,
        )

    with_follower(script)


def test_appends_what_the_leader_sends_and_acknowledges_it_by_the_next_position() -> None:
    async def script(harness: FollowerHarness) -> None:
        partition = await harness.open()
        leader = harness.follow_leader(2, 1)
        assert (await leader.position()).last_fetched_epoch == -1
        first, second = leader_batch(0, 1, b"a", b"b"), leader_batch(2, 1, b"c")
        leader.send(update(1, first, second, high_watermark=2))
        assert (await leader.position()).fetch_offset == 3
        assert bytes_of(partition) == first + second
        assert partition.high_watermark == 2

    with_follower(script)


def test_high_watermark_never_passes_its_own_log_end_and_never_moves_back() -> None:
    async def script(harness: FollowerHarness) -> None:
        partition = await harness.open()
        leader = harness.follow_leader(2, 1)
        await leader.position()
        leader.send(update(1, leader_batch(0, 1), high_watermark=100))
        await leader.position()
        assert partition.high_watermark == 1
        leader.send(update(1, high_watermark=0))
        await leader.position()
        assert partition.high_watermark == 1

    with_follower(script)


def test_rule_48_what_the_leader_has_deleted_goes_before_the_next_position() -> None:
    async def script(harness: FollowerHarness) -> None:
        partition = await harness.open_with((0, 1), (1, 1), (2, 1))
        leader = harness.follow_leader(2, 1)
        assert (await leader.position()).log_start_offset == 0
        leader.send(update(1, high_watermark=3, log_start_offset=2))
        position = await leader.position()
        assert (position.log_start_offset, position.fetch_offset) == (2, 3)
        assert partition.log.log_start_offset == 2
        leader.send(update(1, high_watermark=3, log_start_offset=1))
        assert (await leader.position()).log_start_offset == 2

    with_follower(script)


def test_rule_48_nothing_goes_that_is_not_known_to_be_committed() -> None:
    async def script(harness: FollowerHarness) -> None:
        await harness.open_with((0, 1), (1, 1), (2, 1))
        leader = harness.follow_leader(2, 1)
        await leader.position()
        leader.send(update(1, high_watermark=1, log_start_offset=2))
        assert (await leader.position()).log_start_offset == 1

    with_follower(script)


def test_rule_8_cuts_to_the_end_of_the_common_epoch_and_asks_again() -> None:
    async def script(harness: FollowerHarness) -> None:
        partition = await harness.open_with((0, 1), (1, 1), (2, 1), (3, 2), (4, 2), high_watermark=1)
        before = bytes_of(partition, 2)
        leader = harness.follow_leader(2, 5)
        await leader.position()
        # The leader has nothing of epoch 2, and epoch 1 only up to offset 2.
        leader.send(update(5, diverging=(1, 2)))
        position = await leader.position()
        assert (position.fetch_offset, position.last_fetched_epoch) == (2, 1)
        assert bytes_of(partition) == before
        assert not harness.failed

    with_follower(script)


def test_rule_8_its_own_end_of_an_epoch_bounds_the_cut_too() -> None:
    async def script(harness: FollowerHarness) -> None:
        partition = await harness.open_with((0, 1), (1, 1), (2, 4), (3, 4))
        leader = harness.follow_leader(2, 5)
        await leader.position()
        # The leader's epoch 3 is unknown here: what is certain is only what comes before epoch 4.
        leader.send(update(5, diverging=(3, 4)))
        position = await leader.position()
        assert (position.fetch_offset, position.last_fetched_epoch) == (2, 1)
        assert partition.log.log_end_offset == 2

    with_follower(script)


def test_rule_8_an_epoch_in_which_it_led_without_a_record_is_cut_as_well() -> None:
    async def script(harness: FollowerHarness) -> None:
        partition = await harness.open_with((0, 1), (1, 1))
        harness.follow(image(leader=1, leader_epoch=2))
        assert partition.leadership is not None
        leader = harness.follow_leader(2, 3)
        assert (await leader.position()).last_fetched_epoch == 2
        leader.send(update(3, diverging=(1, 5)))
        position = await leader.position()
        assert (position.fetch_offset, position.last_fetched_epoch) == (2, 1)

    with_follower(script)


def test_a_leader_that_wants_the_same_cut_for_ever_is_asked_with_pauses() -> None:
    async def script(harness: FollowerHarness) -> None:
        partition = await harness.open_with((0, 1), (1, 1))
        leader = harness.follow_leader(2, 2)
        for _ in range(5):
            await leader.position()
            leader.send(update(2, diverging=(1, 9)))
        began = harness.clock.monotonic()
        await leader.position()
        assert harness.clock.monotonic() - began > 0.05
        assert partition.log.log_end_offset == 2

    with_follower(script)


@pytest.mark.parametrize(
    "error", [UnknownLeaderEpoch("?"), NotLeaderOrFollower("?"), UnknownServerError("?")]
)
def test_rule_9_a_question_without_an_answer_cuts_nothing(error: Exception) -> None:
    async def script(harness: FollowerHarness) -> None:
        partition = await harness.open_with((0, 1), (1, 1), high_watermark=1)
        leader = harness.follow_leader(2, 2)
        for _ in range(4):
            assert (await leader.position()).fetch_offset == 2
            leader.send(update(2, error=error))  # type: ignore[arg-type]  # all are
        assert (await leader.position()).fetch_offset == 2
        assert partition.log.log_end_offset == 2

    with_follower(script)


def test_rule_10_an_answer_of_an_older_epoch_is_dropped() -> None:
    follower_stories.an_answer_of_an_older_epoch_is_dropped()


def test_rule_10_an_answer_that_nobody_waits_for_is_dropped() -> None:
    async def script(harness: FollowerHarness) -> None:
        partition = await harness.open()
        leader = harness.follow_leader(2, 1)
        await leader.position()
        batch = leader_batch(0, 1)
        leader.send(update(1, batch), update(1, batch), update(1, diverging=(-1, 0)))
        assert (await leader.position()).fetch_offset == 1
        assert bytes_of(partition) == batch

    with_follower(script)


def test_rule_11_refuses_to_cut_below_its_own_high_watermark() -> None:
    follower_stories.a_cut_below_the_high_watermark_is_refused()


@pytest.mark.parametrize(
    ("unclean", "is_allowed"), [((2,), True), ((1,), False), ((3,), False), ((1, 2), True)]
)
def test_rule_11_an_unclean_election_since_then_allows_it(unclean: tuple[int, ...], is_allowed: bool) -> None:
    async def script(harness: FollowerHarness) -> None:
        partition = await harness.open_with((0, 1), (1, 1), (2, 1), high_watermark=2)
        leader = harness.follow_leader(2, 2, unclean=unclean)
        await leader.position()
        leader.send(update(2, diverging=(1, 1)))
        if is_allowed:
            assert (await leader.position()).fetch_offset == 1
            assert partition.high_watermark == 1
        else:
            await harness.until(lambda: bool(harness.failed))
            assert partition.log.log_end_offset == 3

    with_follower(script)


def test_rule_12_begins_anew_at_the_leaders_start_when_its_end_lies_before_it() -> None:
    follower_stories.a_follower_before_the_leaders_start_begins_anew()


def test_rule_12_begins_anew_where_all_that_the_logs_may_share_is_deleted_at_the_leader() -> None:
    follower_stories.what_no_leader_vouches_for_is_dropped()


def test_rule_12_what_a_leader_vouches_for_is_kept_and_the_rest_is_cut() -> None:
    follower_stories.what_a_leader_vouches_for_is_kept()


def test_rule_12_an_epoch_without_records_goes_before_anything_else_does() -> None:
    follower_stories.an_epoch_without_records_is_no_reason_to_begin_anew()


def test_rule_12_a_log_that_begins_where_the_leaders_does_is_cut_there() -> None:
    """Once: what it has left is nothing, and the leader is content with that."""

    async def script(harness: FollowerHarness) -> None:
        partition = await harness.open_with((0, 1), (1, 1), (2, 1), high_watermark=2)
        await partition.log.advance_log_start(Offset(2))
        leader = harness.follow_leader(2, 2)
        await leader.position()
        leader.send(update(2, diverging=(1, 2), log_start_offset=2))
        assert (await leader.position()).fetch_offset == 2
        assert (partition.log.log_start_offset, partition.log.log_end_offset) == (2, 2)

    with_follower(script)


def test_rule_12_out_of_range_for_any_other_reason_drops_nothing() -> None:
    async def script(harness: FollowerHarness) -> None:
        partition = await harness.open_with((0, 1), (1, 1))
        leader = harness.follow_leader(2, 2)
        await leader.position()
        leader.send(update(2, error=OffsetOutOfRange("?"), log_start_offset=1))
        assert (await leader.position()).fetch_offset == 2
        assert partition.log.log_start_offset == 0

    with_follower(script)


def test_rule_12_a_log_that_ends_where_the_leaders_begins_and_is_not_vouched_for_begins_anew() -> None:
    async def script(harness: FollowerHarness) -> None:
        await harness.open_with((0, 1), (1, 1), (2, 1), high_watermark=2)
        leader = harness.follow_leader(2, 2)
        await leader.position()
        leader.send(update(2, diverging=(1, 3), log_start_offset=3))
        position = await leader.position()
        assert (position.fetch_offset, position.last_fetched_epoch, position.log_start_offset) == (3, -1, 3)

    with_follower(script)


def test_an_empty_log_may_begin_anywhere() -> None:
    async def script(harness: FollowerHarness) -> None:
        partition = await harness.open()
        await partition.log.reset_to(Offset(100))
        leader = harness.follow_leader(2, 2)
        assert (await leader.position()).fetch_offset == 100
        leader.send(update(2, error=OffsetOutOfRange("beyond the end"), log_start_offset=40))
        assert (await leader.position()).fetch_offset == 40

    with_follower(script)


def test_rule_16_with_fsync_a_position_is_named_only_when_all_before_it_is_on_the_device() -> None:
    async def script(harness: FollowerHarness) -> None:
        partition = await harness.open_with((0, 1), (1, 1))
        leader = harness.follow_leader(2, 2)
        position = await leader.position()
        assert position.fetch_offset == 2
        assert partition.log.recovery_point == 2
        leader.send(update(2, leader_batch(2, 2)))
        await harness.until(lambda: partition.log.log_end_offset == 3)
        assert not leader.has_position
        assert partition.log.recovery_point == 2
        assert (await leader.position()).fetch_offset == 3
        assert partition.log.recovery_point == 3

    with_follower(script, durability=Durability.FSYNC, sync_delay_s=0.5)


def test_a_sync_under_way_holds_back_no_other_partition_and_no_new_connection_overtakes_it() -> None:
    async def script(harness: FollowerHarness) -> None:
        slow, quick = await harness.open(0), await harness.open(1)
        harness.follow_leader(2, 1, number=0)
        leader = harness.follow_leader(2, 1, number=1)
        assert {(await leader.position()).partition, (await leader.position()).partition} == {0, 1}
        leader.send(update(1, leader_batch(0, 1), number=0))
        await harness.until(lambda: slow.log.log_end_offset == 1)
        leader.break_stream(UnknownServerError("?"))
        position = await leader.position()
        assert position.partition == 1
        leader.send(update(1, high_watermark=0, number=1))
        assert (await leader.position()).partition == 1
        assert slow.log.recovery_point == 0
        position = await leader.position()
        assert (position.partition, position.fetch_offset) == (0, 1)
        assert slow.log.recovery_point == 1
        assert quick.log.log_end_offset == 0

    with_follower(script, durability=Durability.FSYNC, sync_delay_s=2.0)


def test_bytes_that_fail_their_checksum_are_the_leaders_trouble() -> None:
    async def script(harness: FollowerHarness) -> None:
        partition = await harness.open()
        leader = harness.follow_leader(2, 1)
        batch = leader_batch(0, 1)
        for _ in range(7):
            assert (await leader.position()).fetch_offset == 0
            leader.send(update(1, batch[:-1] + b"?"))
        await leader.position()
        assert partition.failure is None
        leader.send(update(1, batch))
        assert (await leader.position()).fetch_offset == 1

    with_follower(script)


def test_a_failing_disk_ends_it_and_is_reported_once() -> None:
    async def script(harness: FollowerHarness) -> None:
        partition = await harness.open_with((0, 1))
        leader = harness.follow_leader(2, 2)
        await leader.position()

        def refuse(*_: object) -> None:
            raise OSError(5, "Input/output error")

        harness.disk.fault_hook = refuse
        leader.send(update(2, leader_batch(1, 2)))
        await harness.until(lambda: bool(harness.failed))
        harness.disk.fault_hook = None
        assert isinstance(partition.failure, StorageFailed)
        assert len(harness.failed) == 1
        assert not leader.has_position

    with_follower(script)


def test_a_failing_disk_is_reported_again_in_each_epoch_that_counts_on_the_replica() -> None:
    follower_stories.a_failing_disk_is_reported_in_each_epoch_that_counts_on_the_replica()


def test_a_full_disk_is_waited_for() -> None:
    async def script(harness: FollowerHarness) -> None:
        partition = await harness.open_with((0, 1))
        leader = harness.follow_leader(2, 2)
        await leader.position()
        harness.disk.capacity_bytes = 0
        leader.send(update(2, leader_batch(1, 2)))
        assert (await leader.position()).fetch_offset == 1
        harness.disk.capacity_bytes = None
        leader.send(update(2, leader_batch(1, 2)))
        assert (await leader.position()).fetch_offset == 2
        assert partition.failure is None

    with_follower(script)


def test_a_position_that_waited_since_the_epoch_before_is_not_named_before_the_sync() -> None:
    follower_stories.a_position_that_waited_is_not_named_before_the_sync()
