"""Rule 48: who copies a compacted log knows what is missing there, or begins anew."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from quorate.broker.replica.partition import Partition
from quorate.chaos.models.follower import rotten_copy_stories
from quorate.chaos.models.follower.replicas import bytes_of, leader_batch
from quorate.chaos.models.follower.scripted_leader import FollowerHarness, update, with_follower
from quorate.core.ids import Offset
from quorate.storage import Compacted
from quorate.storage.compaction_checkpoint import CompactionCheckpoint
from quorate.v1 import replica_pb2
from quorate.v1.replica_pb2 import FollowerPosition
from tests.unit.replication.test_leader_stream import LeaderHarness, position, with_leader


def compacted(superseded_below: int, tombstones_removed_below: int = 0) -> Compacted:
    return Compacted(Offset(superseded_below), Offset(tombstones_removed_below))


def known_to(told: FollowerPosition) -> Compacted:
    return compacted(told.compacted.superseded_below, told.compacted.tombstones_removed_below)


# -- the follower


def test_one_that_ends_before_a_tombstone_that_is_gone_begins_anew_and_notes_why() -> None:
    async def script(harness: FollowerHarness) -> None:
        await harness.open_with((0, 1), (1, 1), (2, 1))
        leader = harness.follow_leader(2, 1)
        await leader.position()
        leader.send(update(1, compacted=compacted(9, 4)))
        told = await leader.position()
        assert (told.fetch_offset, told.last_fetched_epoch, known_to(told)) == (0, -1, compacted(9, 4))
        leader.send(update(1, leader_batch(0, 1, b"a"), high_watermark=1))
        await leader.position()
        assert (await harness.open()).log.compacted == compacted(9, 4), "the next process does not know"

    with_follower(script)


def test_it_begins_where_the_leaders_log_begins() -> None:
    async def script(harness: FollowerHarness) -> None:
        await harness.open_with((0, 1), (1, 1), (2, 1))
        leader = harness.follow_leader(2, 1)
        await leader.position()
        leader.send(update(1, compacted=compacted(9, 4), log_start_offset=2))
        assert (await leader.position()).fetch_offset == 2

    with_follower(script)


def test_one_that_holds_every_tombstone_keeps_its_log_and_notes_what_replaces() -> None:
    async def script(harness: FollowerHarness) -> None:
        partition = await harness.open_with((0, 1), (1, 1), (2, 1), (3, 1))
        before = bytes_of(partition)
        leader = harness.follow_leader(2, 1)
        assert not (await leader.position()).HasField("compacted")
        leader.send(update(1, compacted=compacted(9, 4)))
        told = await leader.position()
        assert (told.fetch_offset, known_to(told)) == (4, compacted(9))
        assert bytes_of(partition) == before
        assert (await harness.open()).log.compacted == compacted(9)

    with_follower(script)


def test_a_copy_that_knows_of_the_tombstones_is_not_dropped_again() -> None:
    async def script(harness: FollowerHarness) -> None:
        await harness.open_with((0, 1), (1, 1), (2, 1))
        leader = harness.follow_leader(2, 1)
        await leader.position()
        leader.send(update(1, compacted=compacted(9, 4)))
        await leader.position()
        leader.send(update(1, leader_batch(0, 1, b"a"), high_watermark=1))
        await leader.position()
        leader.send(update(1, compacted=compacted(12, 4)))
        told = await leader.position()
        assert (told.fetch_offset, known_to(told)) == (1, compacted(12, 4))
        # Meanwhile more tombstones have gone, and it may hold what they deleted.
        leader.send(update(1, compacted=compacted(12, 7)))
        assert (await leader.position()).fetch_offset == 0

    with_follower(script)


async def _half_a_copy(harness: FollowerHarness) -> Partition:
    partition = await harness.open_with((0, 1), (1, 1))
    leader = harness.follow_leader(2, 1)
    await leader.position()
    leader.send(update(1, compacted=compacted(9)))
    assert (await leader.position()).fetch_offset == 2
    return partition


def test_half_a_copy_does_not_go_on_with_a_leader_that_may_lack_what_it_rests_on() -> None:
    async def script(harness: FollowerHarness) -> None:
        await _half_a_copy(harness)
        leader = harness.follow_leader(3, 2, isr=(3,), unclean=(2,))
        told = await leader.position()
        assert (told.fetch_offset, told.last_fetched_epoch) == (0, -1)

    with_follower(script)


def test_half_a_copy_goes_on_with_a_leader_that_has_everything() -> None:
    async def script(harness: FollowerHarness) -> None:
        await _half_a_copy(harness)
        leader = harness.follow_leader(3, 2, isr=(3,), unclean=(1,))
        assert (await leader.position()).fetch_offset == 2

    with_follower(script)


def test_who_may_be_elected_drops_nothing() -> None:
    async def script(harness: FollowerHarness) -> None:
        await _half_a_copy(harness)
        leader = harness.follow_leader(3, 2, isr=(1, 3), unclean=(2,))
        assert (await leader.position()).fetch_offset == 2

    with_follower(script)


@pytest.mark.parametrize(
    "story", [getattr(rotten_copy_stories, name) for name in rotten_copy_stories.__all__]
)
def test_a_log_that_does_not_know_what_it_lacks(story: Callable[[], None]) -> None:
    story()


def test_a_member_is_cut_like_any_other_log_whatever_is_noted_in_it() -> None:
    """A leader that was forced may have told of what lies beyond its own end."""

    async def script(harness: FollowerHarness) -> None:
        await _half_a_copy(harness)
        leader = harness.follow_leader(3, 2, isr=(1, 3))
        await leader.position()
        leader.send(update(2, diverging=(1, 1)))
        assert (await leader.position()).fetch_offset == 1
        # Nobody counts on it any more.
        leader = harness.follow_leader(2, 3, isr=(2,))
        await leader.position()
        leader.send(update(3, leader_batch(1, 2, b"x"), high_watermark=0))
        await leader.position()
        leader = harness.follow_leader(3, 4, isr=(3,))
        await leader.position()
        leader.send(update(4, diverging=(1, 1)))
        assert (await leader.position()).fetch_offset == 0

    with_follower(script)


# -- the leader


def note_compaction(partition: Partition, superseded_below: int, tombstones_removed_below: int) -> None:
    """As if it had been compacted; what is sent does not matter here."""
    partition.log._state.compaction = CompactionCheckpoint(
        compacted=compacted(superseded_below, tombstones_removed_below)
    )


def position_knowing(
    offset: int, last_epoch: int, superseded_below: int, tombstones_removed_below: int
) -> FollowerPosition:
    named = position(offset, last_epoch)
    named.compacted.CopyFrom(
        replica_pb2.Compacted(
            superseded_below=superseded_below, tombstones_removed_below=tombstones_removed_below
        )
    )
    return named


def test_who_ends_before_what_was_compacted_hears_of_it_before_any_batch() -> None:
    async def script(harness: LeaderHarness) -> None:
        partition = await harness.lead(isr=(1,))
        harness.append(b"a")
        harness.append(b"b")
        harness.append(b"c")
        note_compaction(partition, 2, 1)
        for end, epoch in ((0, -1), (1, 1)):
            harness.name(position(end, epoch))
            told = await harness.only_update()
            assert told.compacted == replica_pb2.Compacted(superseded_below=2, tombstones_removed_below=1)
            assert not told.batches
        # One that knows goes on, and so does one that ends behind all of it.
        for named in (position_knowing(0, -1, 2, 1), position_knowing(1, 1, 2, 0), position(2, 1)):
            harness.name(named)
            assert (await harness.only_update()).batches

    with_leader(script)


def test_what_is_compacted_after_a_position_was_named_is_told_as_well() -> None:
    async def script(harness: LeaderHarness) -> None:
        partition = await harness.lead(isr=(1,))
        harness.append(b"a")
        harness.append(b"b")
        harness.name(position(0))
        note_compaction(partition, 1, 1)
        assert (await harness.only_update()).HasField("compacted")

    with_leader(script)


def test_a_member_of_the_isr_is_never_made_to_drop_its_log() -> None:
    """A leader whose checkpoint is damaged takes everything for compacted, what is not committed too."""

    async def script(harness: LeaderHarness) -> None:
        partition = await harness.lead(isr=(1, 2))
        for value in (b"a", b"b", b"c"):
            harness.append(value)
        harness.name(position(2, 1))
        assert (await harness.only_update()).batches
        assert partition.high_watermark == 2
        note_compaction(partition, 3, 3)
        harness.name(position(2, 1))
        assert (await harness.only_update()).batches
        # One that has lost everything may know that.
        harness.name(position(0, -1))
        assert (await harness.only_update()).HasField("compacted")

    with_leader(script)
