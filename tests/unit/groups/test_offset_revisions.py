"""Who is no member says what its change is based on, and it is refused once that is not so any more."""

from __future__ import annotations

from typing import Any

import pytest

from quorate.broker.groups import offset_decisions
from quorate.broker.groups.offset_decisions import OffsetsDecision
from quorate.broker.groups.records import topic_partitions
from quorate.broker.groups.revisions import Revision
from quorate.chaos.models.groups.group_world import GROUP, World, at
from quorate.errors import InvalidRequest, InvalidUpdateVersion
from quorate.v1.group_pb2 import CommitOffsetsRequest, OffsetToCommit
from tests.unit.groups.offset_requests import commit, delete_group, one


@pytest.fixture
def world() -> World:
    return World(topics={"orders": 4})


def late(decision: OffsetsDecision) -> bool:
    [error] = decision.errors
    assert error is None or isinstance(error, InvalidUpdateVersion)
    return error is not None


def test_who_is_no_member_says_what_the_commit_is_based_on(world: World) -> None:
    entry = OffsetToCommit(topic_id="orders-1", partition=0, offset=5)
    for revision in ("", "seven", "1.2.3"):
        request = CommitOffsetsRequest(group=GROUP, offsets=[entry], revision=revision)
        with pytest.raises(InvalidRequest, match="revision"):
            offset_decisions.commit(
                world.groups, request, topics=world.topics, settings=world.settings, now_ms=world.now_ms
            )


def test_numbers_of_who_is_no_member_are_not_compared(world: World) -> None:
    """An application that is started again counts from one again, and is nobody's successor."""
    place = one("orders", 0)
    commit(world, [place], offset=40, number=9)
    assert commit(world, [place], offset=41, number=1).errors == [None]
    assert world.group.offsets[place].offset == 41


def test_a_commit_that_comes_late_undoes_no_reset(world: World) -> None:
    place = one("orders", 0)
    commit(world, [place], offset=5)
    seen = world.revision
    commit(world, [place], offset=7, seen=seen)
    commit(world, [place], offset=0)
    assert late(commit(world, [place], offset=7, seen=seen))
    assert world.group.offsets[place].offset == 0
    assert commit(world, at("orders", 1), seen=seen).errors == [None], "each place by itself"


def test_a_commit_that_is_asked_again_is_done_once(world: World) -> None:
    place, seen = one("orders", 0), world.revision
    fields: dict[str, Any] = {"offset": 7, "leader_epoch": 2, "metadata": "x", "seen": seen}
    commit(world, [place], **fields)
    again = commit(world, [place], **fields)
    assert (again.records, again.errors) == ([], [None])
    for other in ({"offset": 8}, {"leader_epoch": None}, {"metadata": ""}):
        assert late(commit(world, [place], **{**fields, **other}))


def test_a_commit_that_comes_late_does_not_bring_back_what_was_deleted(world: World) -> None:
    place, seen = one("orders", 0), world.revision
    commit(world, [place], seen=seen)
    delete_group(world)
    assert late(commit(world, [place], seen=seen))
    assert GROUP not in world.groups
    assert not late(commit(world, [place]))


def test_a_commit_of_a_member_is_not_undone_by_who_was_there_before_it(world: World) -> None:
    place, seen = one("orders", 0), world.revision
    epoch = world.heartbeat("a", topics=["orders"]).member_epoch
    commit(world, [place], member_id="a", epoch=epoch, offset=9)
    world.heartbeat("a", -1)
    assert late(commit(world, [place], offset=5, seen=seen))
    assert world.group.offsets[place].offset == 9


def test_a_deletion_that_comes_late_leaves_what_was_committed_since(world: World) -> None:
    commit(world, at("orders", 0, 1))
    seen = world.revision
    delete_group(world, seen)
    commit(world, at("orders", 0), offset=3)
    with pytest.raises(InvalidUpdateVersion):
        delete_group(world, seen)
    decision = offset_decisions.delete_offsets(
        world.groups, GROUP, topic_partitions(at("orders", 0)), topics=world.topics, seen=seen
    )
    assert decision.records == []
    assert late(decision)


def test_a_deletion_that_comes_late_leaves_the_epochs_that_were_given_since(world: World) -> None:
    world.heartbeat("a", topics=["orders"])
    world.heartbeat("a", -1)
    seen = world.revision
    world.heartbeat("b", topics=["orders"])
    world.heartbeat("b", -1)
    with pytest.raises(InvalidUpdateVersion):
        delete_group(world, seen)


def test_a_deletion_that_broke_off_is_completed_by_asking_again(world: World) -> None:
    commit(world, at("orders", 0, 1))
    seen = world.revision
    records = offset_decisions.delete_group(world.groups, GROUP, seen=seen, now_ms=world.now_ms)
    world.carry_out(records[:1])
    delete_group(world, seen)
    assert GROUP not in world.groups


def test_an_epoch_counts_more_than_a_place_in_the_log() -> None:
    """After an unclean election places are given a second time, in a higher epoch."""
    assert Revision(1, 100).is_after(Revision(1, 99))
    assert not Revision(1, 100).is_after(Revision(1, 100))
    assert not Revision(1, 100).is_after(Revision(2, 50))
    assert Revision(2, 50).is_after(Revision(1, 100))
    assert Revision.parse(str(Revision(3, 14)), group=GROUP) == (3, 14)
