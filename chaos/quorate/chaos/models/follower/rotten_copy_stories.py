"""Stories of a replica whose log does not know what it lacks: the file that said so has rotted (rule 48)."""

from __future__ import annotations

from typing import Final

from quorate.broker.replica.partition import Partition
from quorate.chaos.models.follower.replicas import image, leader_batch
from quorate.chaos.models.follower.scripted_leader import FOLLOWER, FollowerHarness, update, with_follower
from quorate.core.ids import Offset
from quorate.storage import Compacted

__all__ = [
    "a_leader_that_has_everything_knows_where_that_ends",
    "a_leader_that_may_lack_something_goes_on_not_knowing",
    "a_member_that_is_cut_keeps_the_rest",
    "half_a_copy_begins_anew_with_a_leader_that_may_lack_something",
    "who_is_no_member_keeps_nothing_of_a_log_that_is_cut",
]

#: beyond the end of whatever is copied here
_SUPERSEDED_BELOW: Final = Offset(9)
#: somewhere in what the file says
_ROTTEN_BIT: Final = 8 * 50


def half_a_copy_begins_anew_with_a_leader_that_may_lack_something() -> None:
    """What it has rests on records that were still to come, and these may be gone with the leader before."""

    async def story(harness: FollowerHarness) -> None:
        await _half_a_copy(harness)
        partition = await _come_back_rotten(harness)
        assert partition.log.log_end_offset == 2
        leader = harness.follow_leader(3, 3, isr=(3,), unclean=(3,))
        told = await leader.position()
        assert (told.fetch_offset, told.last_fetched_epoch) == (0, -1), "it goes on, of two histories"

    with_follower(story)


def a_member_that_is_cut_keeps_the_rest() -> None:
    """It may be elected next, before it has copied anything. What is cut off was never committed."""

    async def story(harness: FollowerHarness) -> None:
        partition = await _cut_at_two(harness, isr=(FOLLOWER, 3))
        assert partition.log.log_end_offset == 2, f"a member ends at {partition.log.log_end_offset}"

    with_follower(story)


def who_is_no_member_keeps_nothing_of_a_log_that_is_cut() -> None:
    """What is cut off may have replaced what is missing before it."""

    async def story(harness: FollowerHarness) -> None:
        partition = await _cut_at_two(harness, isr=(3,))
        assert partition.log.log_end_offset == 0, "it keeps what may lack something"
        assert not partition.log.compacted.is_unknown

    with_follower(story)


def a_leader_that_has_everything_knows_where_that_ends() -> None:
    """Else all that is copied from it, ever, would not know what it lacks."""

    async def story(harness: FollowerHarness) -> None:
        await _half_a_copy(harness)
        partition = await _come_back_rotten(harness)
        harness.follow(image(leader=FOLLOWER, leader_epoch=3, isr=(FOLLOWER, 3)))
        assert partition.log.compacted == Compacted(Offset(2), Offset(2))

    with_follower(story)


def a_leader_that_may_lack_something_goes_on_not_knowing() -> None:
    """What has replaced some of its records may have been beyond its end, at a leader that was given up."""

    async def story(harness: FollowerHarness) -> None:
        await _half_a_copy(harness)
        partition = await _come_back_rotten(harness)
        for epoch, isr in ((3, (FOLLOWER,)), (4, (FOLLOWER, 3))):
            harness.follow(image(leader=FOLLOWER, leader_epoch=epoch, isr=isr, unclean=(3,)))
            assert partition.log.compacted.is_unknown, "it takes itself for complete"

    with_follower(story)


async def _half_a_copy(harness: FollowerHarness) -> None:
    await harness.open_with((0, 1), (1, 1))
    leader = harness.follow_leader(2, 2, isr=(2, 3))
    await leader.position()
    leader.send(update(2, compacted=Compacted(_SUPERSEDED_BELOW)))
    assert (await leader.position()).fetch_offset == 2


async def _cut_at_two(harness: FollowerHarness, *, isr: tuple[int, ...]) -> Partition:
    """In sync once, with records behind that nobody else has."""
    await harness.open_with((0, 1), (1, 1))
    await harness.partition.log.note_superseded(Offset(1))
    harness.partition.log.append_as_follower(leader_batch(2, 1, b"never committed"))
    partition = await _come_back_rotten(harness)
    leader = harness.follow_leader(3, 2, isr=isr)
    assert (await leader.position()).fetch_offset == 3
    leader.send(update(2, diverging=(1, 2)))
    await leader.position()
    return partition


async def _come_back_rotten(harness: FollowerHarness) -> Partition:
    """The next process, and while there was none a bit has turned."""
    before = harness.partition
    harness.fetchers.unfollow(before)
    harness.disk.flip_bit(f"{before.log.directory}/compaction-checkpoint", _ROTTEN_BIT)
    return await harness.open()
