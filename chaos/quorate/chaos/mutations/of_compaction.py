"""Mutations of what compaction removes, and of what followers are told of it (rule 48)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from quorate.broker.replica import leadership
from quorate.broker.replica.compacted_copies import has_to_begin_anew
from quorate.broker.replica.leadership import Leadership
from quorate.broker.replica.partition import Partition
from quorate.broker.replication import leader_fetcher
from quorate.chaos.cluster.faults.kinds import Fault
from quorate.chaos.models.follower import rotten_copy_stories
from quorate.chaos.mutations.cluster_hunt import ClusterHunt
from quorate.chaos.mutations.cluster_stories import cluster_story
from quorate.chaos.mutations.compacted_copy_stories import (
    SETTINGS,
    a_copy_asks_the_same_of_its_followers,
    a_copy_is_dropped_where_its_leader_lacks_what_it_rests_on,
    a_replica_that_was_away_hears_of_deletions,
    nobody_knows_what_is_missing,
)
from quorate.chaos.mutations.hunts import StoryHunt
from quorate.chaos.mutations.mutation import Mutation, mutation, mutations_in
from quorate.chaos.sim.patch import Patch
from quorate.core.ids import Offset
from quorate.core.records import RecordKey
from quorate.storage import PartitionLog, offset_map, opening
from quorate.storage.batch_cleaner import BatchCleaner
from quorate.storage.checkpoint import DamagedCheckpoint, read_checkpoint
from quorate.storage.compaction import LogCompactor
from quorate.storage.compaction_checkpoint import CompactionCheckpoint, load_compaction
from quorate.storage.log_files import COMPACTION_CHECKPOINT_NAME
from quorate.storage.opening import _Opening
from quorate.storage.quarantine import Damage

__all__ = ["MUTATIONS"]

_TROUBLE_WITH_LEADERS: Final = (Fault.KILL_LEADER, Fault.CUT_LEADER_FROM_FOLLOWERS, Fault.PAUSE_LEADER)


def _story(story: Callable[[], None]) -> StoryHunt:
    return StoryHunt("a follower and a leader by script", story)


# -- what goes


@mutation(48, hunt=ClusterHunt((Fault.KILL_BROKER,), is_grouped=True, is_compacted=True))
def tombstones_go_at_once(patch: Patch) -> None:
    """A reader that has seen the record never hears of its end."""
    patch.setattr(CompactionCheckpoint, "expired_tombstones_end", lambda self, **_: self.first_dirty_offset)


@mutation(48, hunt=ClusterHunt((Fault.KILL_AT_A_DISK_OPERATION, Fault.LOSE_POWER), is_compacted=True))
def tombstones_go_before_what_they_delete(patch: Patch) -> None:
    """In one pass with it: a crash in the middle brings it back."""
    original = BatchCleaner._stays

    def stays(self: BatchCleaner, record: RecordKey) -> bool:
        return original(self, record) and not record.is_tombstone

    patch.setattr(BatchCleaner, "_stays", stays)


@mutation(48, hunt=ClusterHunt(_TROUBLE_WITH_LEADERS, is_compacted=True))
def compacts_beyond_the_high_watermark(patch: Patch) -> None:
    original = LogCompactor._cleanable
    patch.setattr(LogCompactor, "_cleanable", lambda self, _, now_ms: original(self, Offset(1 << 40), now_ms))


@mutation(48, hunt=ClusterHunt((Fault.KILL_BROKER, Fault.STOP_CLEANLY), is_compacted=True))
def an_earlier_record_is_taken_for_the_latest(patch: Patch) -> None:
    """Keys are told apart by too little: one of two loses its record."""
    patch.setattr(offset_map, "_digest", lambda key: key[:1])


# -- what followers are told


@mutation(48, hunt=cluster_story(a_replica_that_was_away_hears_of_deletions, settings=SETTINGS))
def followers_are_not_told_of_tombstones_that_are_gone(patch: Patch) -> None:
    """As in Kafka: whoever was away for longer than delete.retention.ms keeps what was deleted, for ever."""
    patch.setattr(Leadership, "untold_compaction", lambda *_, **__: None)


@mutation(48, hunt=cluster_story(a_copy_asks_the_same_of_its_followers, brokers=4, settings=SETTINGS))
def a_copy_forgets_at_a_restart_what_it_lacks(patch: Patch) -> None:
    async def load_compaction(*_: Any, **__: Any) -> CompactionCheckpoint:
        return CompactionCheckpoint()

    patch.setattr(opening, "load_compaction", load_compaction)


@mutation(
    48,
    hunt=cluster_story(
        a_copy_is_dropped_where_its_leader_lacks_what_it_rests_on, brokers=4, settings=SETTINGS
    ),
)
def followers_are_told_of_tombstones_alone(patch: Patch) -> None:
    """A copy does not know that it lacks records because of newer ones: it is cut like any other log."""

    def hears(*compacted: Any, **known: Any) -> bool:
        return has_to_begin_anew(*compacted, **known)

    patch.setattr(leadership, "has_to_hear", hears)


# -- when nobody knows what is missing


@mutation(48, hunt=_story(rotten_copy_stories.half_a_copy_begins_anew_with_a_leader_that_may_lack_something))
def a_rotten_copy_lacks_nothing_beyond_its_end(patch: Patch) -> None:
    """What it lacks is taken to end where it does itself, though what is to come may have replaced it."""

    async def load(*where: Any, log_end_offset: Offset, **how: Any) -> CompactionCheckpoint:
        loaded = await load_compaction(*where, log_end_offset=log_end_offset, **how)
        return loaded.complete_at(log_end_offset)

    patch.setattr(opening, "load_compaction", load)


@mutation(48, 1, hunt=_story(rotten_copy_stories.a_member_that_is_cut_keeps_the_rest))
def a_member_is_dropped_where_it_is_cut(patch: Patch) -> None:
    """For what its log says of itself, although it may be elected before it has copied anything."""
    patch.setattr(leader_fetcher, "may_be_elected", lambda *_: False)


@mutation(48, hunt=_story(rotten_copy_stories.who_is_no_member_keeps_nothing_of_a_log_that_is_cut))
def whoever_is_cut_counts_as_a_member(patch: Patch) -> None:
    patch.setattr(leader_fetcher, "may_be_elected", lambda *_: True)


@mutation(48, hunt=_story(rotten_copy_stories.a_leader_that_may_lack_something_goes_on_not_knowing))
def a_forced_leader_takes_itself_for_complete(patch: Patch) -> None:
    original = Partition._begin_leadership

    def begin(self: Partition) -> None:
        original(self)
        if self.leadership is not None:
            self.log.note_complete()

    patch.setattr(Partition, "_begin_leadership", begin)


@mutation(48, 44, hunt=cluster_story(nobody_knows_what_is_missing, settings=SETTINGS))
def a_rotten_note_is_damage_of_the_log(patch: Patch) -> None:
    """No replica with one counts, and where all of them have one nobody can lead, with every record there."""
    run = _Opening.run

    async def run_strictly(self: _Opening) -> Damage | None:
        path = f"{self._directory}/{COMPACTION_CHECKPOINT_NAME}"
        try:
            read_checkpoint(self._context.disk, path)
        except DamagedCheckpoint as damaged:
            return Damage(path, 0, Offset(0), damaged.reason)
        return await run(self)

    patch.setattr(_Opening, "run", run_strictly)


@mutation(48, hunt=_story(rotten_copy_stories.a_leader_that_has_everything_knows_where_that_ends))
def what_is_unknown_is_unknown_for_ever(patch: Patch) -> None:
    """It is told to everybody who copies, and each of them drops its log at the next cut."""
    patch.setattr(PartitionLog, "note_complete", lambda _: None)


MUTATIONS: Final[tuple[Mutation, ...]] = (
    *mutations_in(globals()),
    replace(
        followers_are_not_told_of_tombstones_that_are_gone,
        name="followers-are-not-told-of-tombstones-that-are-gone-in-a-cluster",
        hunt=ClusterHunt((Fault.KILL_BROKER, Fault.CUT_OFF), is_compacted=True),
    ),
)
