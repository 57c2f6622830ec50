"""Who may say how far a group has come (rule 62), and when that is forgotten."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from quorate.broker.groups import offset_decisions
from quorate.broker.groups.member import Member
from quorate.broker.groups.records import TopicIdPartition, topic_partitions
from quorate.chaos.models.groups.group_world import GROUP, World, at
from quorate.chaos.sim.patch import Patch
from quorate.errors import (
    CommitOvertaken,
    FencedMemberEpoch,
    GroupNotEmpty,
    InvalidRequest,
    OffsetOutOfRange,
    QuorateError,
    StaleMemberEpoch,
    UnknownMember,
    UnknownTopicOrPartition,
)
from quorate.v1.group_pb2 import CommitOffsetsRequest, FetchOffsetsRequest
from tests.mutants import assert_story_notices
from tests.unit.groups.offset_requests import commit, delete_group, one


def outcome(world: World, partition: TopicIdPartition, member_id: str, epoch: int) -> str:
    """The error's code; empty: committed."""
    offset = world.now_ms = world.now_ms + 1
    try:
        (error,) = commit(world, [partition], member_id=member_id, epoch=epoch, offset=offset).errors
    except QuorateError as raised:
        error = raised
    known = world.group.offsets.get(partition)
    assert (error is None) == (known is not None and known.offset == offset), "refused is refused"
    return "" if error is None else error.code


@pytest.fixture
def world() -> World:
    return World(topics={"orders": 4})


# -- rule 62


def returned() -> tuple[World, int, int]:
    """``a`` had everything, gave up partitions 2 and 3, and got them back; the epochs before and after."""
    world = World(topics={"orders": 4})
    before = world.heartbeat("a", topics=["orders"]).member_epoch
    world.heartbeat("b", topics=["orders"])
    world.heartbeat("a", before, owned=at("orders", 0, 1))
    world.heartbeat("b", -1)
    world.settle("a")
    after = world.group.members["a"].member_epoch
    assert after > before
    return world, before, after


def test_a_member_commits_what_it_holds() -> None:
    world, _, after = returned()
    assert {outcome(world, each, "a", after) for each in at("orders", 0, 1, 2, 3)} == {""}


def test_a_member_that_is_behind_commits_what_it_has_held_all_along() -> None:
    world, before, _ = returned()
    assert outcome(world, one("orders", 0), "a", before) == ""


def test_a_commit_from_before_the_partition_was_lost_and_regained_is_refused() -> None:
    world, before, after = returned()
    assert outcome(world, one("orders", 2), "a", before) == "STALE_MEMBER_EPOCH"
    assert outcome(world, one("orders", 2), "a", after - 1) == "STALE_MEMBER_EPOCH"
    assert outcome(world, one("orders", 2), "a", after) == ""


def test_a_commit_in_an_epoch_that_nobody_gave_is_refused() -> None:
    world, _, after = returned()
    assert outcome(world, one("orders", 0), "a", after + 1) == "FENCED_MEMBER_EPOCH"


def test_a_member_commits_what_it_is_about_to_give_up_and_not_what_it_has_given_up() -> None:
    world = World(topics={"orders": 4})
    epoch = world.heartbeat("a", topics=["orders"]).member_epoch
    world.heartbeat("b", topics=["orders"])
    assert outcome(world, one("orders", 3), "a", epoch) == ""
    world.heartbeat("a", epoch, owned=at("orders", 0, 1))
    assert outcome(world, one("orders", 3), "a", epoch) == "STALE_MEMBER_EPOCH"
    holder = world.group.members["b"]
    assert outcome(world, one("orders", 3), "b", holder.member_epoch) == ""
    assert outcome(world, one("orders", 0), "b", holder.member_epoch) == "STALE_MEMBER_EPOCH"


def test_a_member_that_was_removed_commits_nothing() -> None:
    world = World(topics={"orders": 4})
    epoch = world.heartbeat("a", topics=["orders"]).member_epoch
    world.heartbeat("b", topics=["orders"])
    world.remove("a")
    assert outcome(world, one("orders", 0), "a", epoch) == "UNKNOWN_MEMBER_ID"
    world.heartbeat("b", -1)
    assert outcome(world, one("orders", 0), "a", epoch) == "UNKNOWN_MEMBER_ID"


def test_a_member_that_was_removed_and_is_back_commits_nothing_from_before() -> None:
    world = World(topics={"orders": 4})
    epoch = world.heartbeat("a", topics=["orders"]).member_epoch
    world.remove("a")
    again = world.heartbeat("a", topics=["orders"]).member_epoch
    assert outcome(world, one("orders", 0), "a", epoch) == "STALE_MEMBER_EPOCH"
    assert outcome(world, one("orders", 0), "a", again) == ""


def test_one_partition_may_be_refused_and_the_next_not(world: World) -> None:
    epoch = world.heartbeat("a", topics=["orders"]).member_epoch
    world.heartbeat("b", topics=["orders"])
    world.heartbeat("a", epoch, owned=at("orders", 0, 1))
    decision = commit(world, sorted(at("orders", 1, 2)), member_id="a", epoch=epoch)
    first, second = decision.errors
    assert first is None
    assert isinstance(second, StaleMemberEpoch)
    assert second.retriable
    assert world.group.offsets.keys() == at("orders", 1)


def test_who_is_no_member_commits_only_where_there_are_none(world: World) -> None:
    commit(world, at("orders", 0))
    epoch = world.heartbeat("a", topics=["orders"]).member_epoch
    with pytest.raises(UnknownMember):
        commit(world, at("orders", 0))
    world.heartbeat("a", -1)
    commit(world, at("orders", 0), offset=7)
    assert world.group.offsets[one("orders", 0)].offset == 7
    with pytest.raises(UnknownMember):
        commit(world, at("orders", 0), member_id="a", epoch=epoch)


def newer_epochs_are_believed(patch: Patch) -> None:
    patch.setattr(offset_decisions, "_check_not_newer", lambda *_: None)


def an_epoch_that_is_one_too_new_is_believed(patch: Patch) -> None:
    original = offset_decisions._check_not_newer
    patch.setattr(offset_decisions, "_check_not_newer", lambda member, epoch: original(member, epoch - 1))


def the_epoch_it_is_in_is_refused(patch: Patch) -> None:
    original = offset_decisions._check_not_newer
    patch.setattr(offset_decisions, "_check_not_newer", lambda member, epoch: original(member, epoch + 1))


def _with_since(patch: Patch, change: int) -> None:
    original = Member.since_epoch

    def since_epoch(self: Member, partition: TopicIdPartition) -> int | None:
        since = original(self, partition)
        return None if since is None else since + change

    patch.setattr(Member, "since_epoch", since_epoch)


def an_epoch_before_the_partition_is_believed(patch: Patch) -> None:
    _with_since(patch, -1)


def the_epoch_in_which_it_was_given_is_refused(patch: Patch) -> None:
    _with_since(patch, +1)


def since_when_it_holds_it_is_not_looked_at(patch: Patch) -> None:
    _with_since(patch, -1000)


def what_it_does_not_hold_is_its_own(patch: Patch) -> None:
    original = Member.since_epoch
    patch.setattr(
        Member, "since_epoch", lambda self, each: 0 if original(self, each) is None else original(self, each)
    )


def what_is_revoking_is_not_held(patch: Patch) -> None:
    patch.setattr(Member, "since_epoch", lambda self, each: self.assigned.get(each))


def only_the_current_epoch_counts(patch: Patch) -> None:
    patch.setattr(Member, "since_epoch", lambda self, each: self.member_epoch)


MUTATIONS = {
    newer_epochs_are_believed: test_a_commit_in_an_epoch_that_nobody_gave_is_refused,
    an_epoch_that_is_one_too_new_is_believed: test_a_commit_in_an_epoch_that_nobody_gave_is_refused,
    the_epoch_it_is_in_is_refused: test_a_member_commits_what_it_holds,
    an_epoch_before_the_partition_is_believed: (
        test_a_commit_from_before_the_partition_was_lost_and_regained_is_refused
    ),
    the_epoch_in_which_it_was_given_is_refused: test_a_member_commits_what_it_holds,
    since_when_it_holds_it_is_not_looked_at: (
        test_a_commit_from_before_the_partition_was_lost_and_regained_is_refused
    ),
    what_it_does_not_hold_is_its_own: (
        test_a_member_commits_what_it_is_about_to_give_up_and_not_what_it_has_given_up
    ),
    what_is_revoking_is_not_held: (
        test_a_member_commits_what_it_is_about_to_give_up_and_not_what_it_has_given_up
    ),
    only_the_current_epoch_counts: test_a_member_that_is_behind_commits_what_it_has_held_all_along,
}


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.__name__)
def test_each_comparison_of_rule_62_is_missed_when_it_is_gone(mutation: Any) -> None:
    assert_story_notices(mutation, MUTATIONS[mutation])


# -- commits that overtake each other


def test_a_commit_that_comes_after_a_later_one_of_its_member_changes_nothing() -> None:
    """The member gave up on the first one, sent another, and was told that it is committed."""
    world = World(topics={"orders": 4})
    epoch = world.heartbeat("a", topics=["orders"]).member_epoch
    place = one("orders", 0)
    commit(world, [place], member_id="a", epoch=epoch, offset=40, number=2)
    late = commit(world, [place, one("orders", 1)], member_id="a", epoch=epoch, offset=15, number=1)
    assert [type(each) for each in late.errors] == [CommitOvertaken, type(None)], "each place by itself"
    assert world.group.offsets[place].offset == 40


def test_going_back_is_allowed_to_whoever_says_it_last() -> None:
    world = World(topics={"orders": 4})
    epoch = world.heartbeat("a", topics=["orders"]).member_epoch
    place = one("orders", 0)
    for number, offset in ((1, 40), (2, 15), (2, 15)):
        (error,) = commit(world, [place], member_id="a", epoch=epoch, offset=offset, number=number).errors
        assert error is None, "also if it arrives twice"
        assert world.group.offsets[place].offset == offset


def test_numbers_are_compared_only_with_those_of_the_same_member() -> None:
    world = World(topics={"orders": 1})
    place = one("orders", 0)
    epoch = world.heartbeat("a", topics=["orders"]).member_epoch
    commit(world, [place], member_id="a", epoch=epoch, number=7)
    world.heartbeat("a", -1)
    epoch = world.heartbeat("b", topics=["orders"]).member_epoch
    assert commit(world, [place], member_id="b", epoch=epoch, number=1).errors == [None]
    world.heartbeat("b", -1)
    assert commit(world, [place], number=0).errors == [None], "and of one that does not count"


def overtaken_commits_count(patch: Patch) -> None:
    patch.setattr(offset_decisions, "_overtaken", lambda *_: None)


def the_same_number_is_overtaken(patch: Patch) -> None:
    original = offset_decisions._overtaken

    def overtaken(group: Any, partition: TopicIdPartition, request: CommitOffsetsRequest) -> Any:
        earlier = CommitOffsetsRequest()
        earlier.CopyFrom(request)
        earlier.commit_number -= 1
        return original(group, partition, earlier)

    patch.setattr(offset_decisions, "_overtaken", overtaken)


@pytest.mark.parametrize(
    ("mutation", "story"),
    [
        (overtaken_commits_count, test_a_commit_that_comes_after_a_later_one_of_its_member_changes_nothing),
        (the_same_number_is_overtaken, test_going_back_is_allowed_to_whoever_says_it_last),
    ],
)
def test_each_comparison_of_commit_numbers_is_missed_when_it_is_gone(mutation: Any, story: Any) -> None:
    assert_story_notices(mutation, story)


# -- what is committed


def test_everything_that_was_committed_is_kept(world: World) -> None:
    commit(world, at("orders", 2), offset=9, leader_epoch=0, metadata="so far")
    found = world.group.offsets[one("orders", 2)]
    assert (found.offset, found.leader_epoch, found.metadata) == (9, 0, "so far")
    assert (found.committed_at_ms, found.topic) == (world.now_ms, "orders")
    commit(world, at("orders", 2), offset=0)
    found = world.group.offsets[one("orders", 2)]
    assert (found.offset, found.leader_epoch) == (0, None), "an epoch that is not known is not 0"


def test_offsets_that_cannot_be_are_refused_one_by_one(world: World) -> None:
    world = World(topics={"orders": 4}, offset_metadata_bytes_max=5)
    for partitions, entry, kind in (
        (at("orders", 4), {}, UnknownTopicOrPartition),
        (at("other", 0), {}, UnknownTopicOrPartition),
        (at("orders", -1), {}, UnknownTopicOrPartition),
        (at("orders", 0), {"offset": -1}, InvalidRequest),
        (at("orders", 0), {"metadata": "äöü"}, InvalidRequest),
    ):
        decision = commit(world, partitions, **entry)
        assert [type(error) for error in decision.errors] == [kind]
        assert decision.records == []
    assert commit(world, at("orders", 0), metadata="12345").errors == [None]


def test_a_partition_is_in_a_request_once(world: World) -> None:
    with pytest.raises(InvalidRequest):
        commit(world, [one("orders", 0), one("orders", 0)])


def test_what_the_caller_refuses_is_not_committed(world: World) -> None:
    error = OffsetOutOfRange("beyond the end")
    decision = commit(world, sorted(at("orders", 0, 1, 2)), refused={1: error})
    assert decision.errors == [None, error, None]
    assert world.group.offsets.keys() == at("orders", 0, 2)


# -- asking


def ask(world: World, partitions: Iterable[TopicIdPartition], member_id: str = "", epoch: int = 0) -> None:
    request = FetchOffsetsRequest(
        group=GROUP, partitions=topic_partitions(partitions), member_id=member_id, member_epoch=epoch
    )
    offset_decisions.check_fetch(world.groups, request)


def test_anybody_may_ask_and_members_in_an_epoch_that_fits() -> None:
    world, before, after = returned()
    everything = at("orders", 0, 1, 2, 3)
    ask(world, everything)
    ask(world, everything, "a", after)
    ask(world, at("orders", 0, 1), "a", before)
    with pytest.raises(StaleMemberEpoch):
        ask(world, everything, "a", before)
    with pytest.raises(StaleMemberEpoch):
        ask(world, (), "a", world.group.members["a"].previous_member_epoch - 1)
    with pytest.raises(FencedMemberEpoch):
        ask(world, everything, "a", after + 1)
    with pytest.raises(UnknownMember):
        ask(world, everything, "z", 1)


def test_a_member_is_not_told_where_to_begin_in_what_it_does_not_hold() -> None:
    """Somebody else may be reading there: an answer that is too early would be used when it is given."""
    world = World(topics={"orders": 2})
    world.heartbeat("a", topics=["orders"])
    world.heartbeat("b", topics=["orders"])
    world.settle("a", "b")
    held = frozenset(world.group.members["a"].assigned)
    epoch = world.group.members["a"].member_epoch
    ask(world, held, "a", epoch)
    for partitions in (at("orders", 0, 1) - held, at("orders", 0, 1), at("other", 0)):
        with pytest.raises(StaleMemberEpoch):
            ask(world, partitions, "a", epoch)


# -- forgetting


def expire(world: World, retention_ms: int = 100) -> None:
    world.carry_out(
        offset_decisions.expired_offsets(world.group, now_ms=world.now_ms, retention_ms=retention_ms)
    )


def test_offsets_of_a_group_with_members_never_expire(world: World) -> None:
    epoch = world.heartbeat("a", topics=["orders"]).member_epoch
    commit(world, at("orders", 0), member_id="a", epoch=epoch)
    world.now_ms += 1_000_000
    expire(world)
    assert world.group.offsets


def test_offsets_expire_after_the_group_is_empty_for_long_enough(world: World) -> None:
    epoch = world.heartbeat("a", topics=["orders"]).member_epoch
    commit(world, at("orders", 0), member_id="a", epoch=epoch)
    world.now_ms += 1_000_000
    world.heartbeat("a", -1)
    world.now_ms += 99
    expire(world)
    assert world.group.offsets, "counted from when it became empty, not from the commit"
    world.now_ms += 1
    expire(world)
    assert not world.group.offsets
    world.now_ms += 600_000
    expire(world)
    assert GROUP not in world.groups


def test_offsets_expire_one_by_one_after_their_commit(world: World) -> None:
    commit(world, at("orders", 0))
    world.now_ms += 50
    commit(world, at("orders", 1))
    world.now_ms += 50
    expire(world)
    assert world.group.offsets.keys() == at("orders", 1)
    world.now_ms += 50
    expire(world)
    assert GROUP not in world.groups


def test_an_empty_group_without_offsets_goes_when_nothing_of_its_members_can_arrive(world: World) -> None:
    world.heartbeat("a", topics=["orders"])
    world.now_ms += 600_000
    expire(world)
    assert GROUP in world.groups
    world.heartbeat("a", -1)
    world.now_ms += 599_999
    expire(world)
    assert GROUP in world.groups
    world.now_ms += 1
    expire(world)
    assert GROUP not in world.groups


def test_offsets_of_deleted_topics_are_removed_and_only_of_those(world: World) -> None:
    world.create_topic("gone", 1)
    world.create_topic("__system", 1)
    commit(world, at("orders", 3) | at("gone", 0) | at("__system", 0))
    assert world.topics_changed() == []
    world.delete_topic("gone")
    world.topics_changed()
    assert world.group.offsets.keys() == at("orders", 3) | at("__system", 0)
    world.create_topic("gone", 1)
    assert world.topics_changed() == []


def test_a_group_without_members_can_be_deleted(world: World) -> None:
    epoch = world.heartbeat("a", topics=["orders"]).member_epoch
    commit(world, at("orders", 0, 1), member_id="a", epoch=epoch)
    with pytest.raises(GroupNotEmpty):
        delete_group(world)
    world.heartbeat("a", -1)
    delete_group(world)
    assert world.group.is_deleted
    assert not world.group.offsets
    commit(world, at("orders", 0))
    assert not world.group.is_deleted
    delete_group(world)
    assert world.group.is_deleted


def test_a_group_that_never_had_a_member_is_deleted_without_a_trace(world: World) -> None:
    commit(world, at("orders", 0))
    delete_group(world)
    assert GROUP not in world.groups
    assert delete_group(world) == [], "it is gone, which is what was asked for"


def test_epochs_of_a_deleted_group_are_remembered_while_a_call_may_be_under_way(world: World) -> None:
    """A member of before would find its epoch given a second time, and could commit in it."""
    before = world.heartbeat("a", topics=["orders"]).member_epoch
    world.heartbeat("a", -1)
    delete_group(world)
    assert world.heartbeat("a", topics=["orders"]).member_epoch > before
    assert not world.group.is_deleted
    assert outcome(world, one("orders", 0), "a", before) == "STALE_MEMBER_EPOCH"
    world.heartbeat("a", -1)
    delete_group(world)
    world.now_ms += 600_000
    expire(world)
    assert GROUP not in world.groups
    world.heartbeat("a", topics=["orders"])
    world.heartbeat("a", -1)
    world.now_ms += 600_000
    delete_group(world)
    assert GROUP not in world.groups, "at once where nothing can arrive any more"


def test_offsets_can_be_deleted_where_nobody_reads(world: World) -> None:
    world.create_topic("more", 1)
    commit(world, at("orders", 0, 1) | at("more", 0))
    world.heartbeat("a", topics=["orders"])
    decision = offset_decisions.delete_offsets(
        world.groups,
        GROUP,
        topic_partitions(at("orders", 0) | at("more", 0, 7)),
        topics=world.topics,
        seen=world.revision,
    )
    # In the order of the request: more-0, more-7, orders-0.
    assert [None if error is None else type(error) for error in decision.errors] == [
        None,
        None,
        GroupNotEmpty,
    ]
    refused = decision.errors[-1]
    assert refused is not None
    assert refused.message == f"group {GROUP} has a member that reads orders-0: stop it first"
    world.carry_out(decision.records)
    assert world.group.offsets.keys() == at("orders", 0, 1)
    decision = offset_decisions.delete_offsets(
        world.groups, "other", topic_partitions(at("orders", 0)), topics=world.topics, seen=world.revision
    )
    assert decision == ([], [None]), "there is none, which is what was asked for"
