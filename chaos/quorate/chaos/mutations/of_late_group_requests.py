"""Mutations of what keeps a late copy of a change of offsets from being carried out."""

from __future__ import annotations

from typing import Any, Final

from quorate.broker.groups import offset_decisions
from quorate.broker.groups.group import Groups
from quorate.broker.groups.records import GroupRecord
from quorate.broker.groups.revisions import Revision
from quorate.chaos.models.groups import group_stories
from quorate.chaos.mutations import late_group_request_stories as stories
from quorate.chaos.mutations.cluster_stories import cluster_story
from quorate.chaos.mutations.hunts import StoryHunt
from quorate.chaos.mutations.mutation import Mutation, mutation, mutations_in
from quorate.chaos.sim.patch import Patch
from quorate.errors import CommitOvertaken, GroupNotFound
from quorate.v1.group_pb2 import CommitOffsetsRequest
from quorate.v1.group_records_pb2 import OffsetValue

__all__ = ["MUTATIONS"]

_MODEL: Final = "model of groups"


# -- commits


@mutation(62, hunt=cluster_story(stories.a_late_commit_by_hand_undoes_no_reset))
def commit_by_hand_is_based_on_anything(patch: Patch) -> None:
    """Whatever revision it names."""
    patch.setattr(offset_decisions, "_has_changed", lambda *_: False)


@mutation(62, hunt=cluster_story(stories.a_late_reset_undoes_no_later_one))
def reset_is_based_on_anything(patch: Patch) -> None:
    commit_by_hand_is_based_on_anything.apply(patch)


@mutation(62, hunt=StoryHunt(_MODEL, group_stories.an_application_that_is_started_again_commits))
def numbers_of_nobody_are_compared(patch: Patch) -> None:
    """Two processes of an application that assigns by hand are taken for one member."""
    record_of = offset_decisions._record_of

    def numbered(request: CommitOffsetsRequest, *rest: Any) -> GroupRecord:
        record = record_of(request, *rest)
        assert isinstance(record.value, OffsetValue)
        record.value.commit_number = request.commit_number
        return record

    def overtaken(group: Any, partition: Any, request: CommitOffsetsRequest) -> CommitOvertaken | None:
        stands = None if group is None else group.offsets.get(partition)
        is_later = stands is not None and stands.commit_number > request.commit_number
        return CommitOvertaken("a later one is here already") if is_later else None

    patch.setattr(offset_decisions, "_record_of", numbered)
    patch.setattr(offset_decisions, "_overtaken", overtaken)


# -- deletions


@mutation(62, hunt=cluster_story(stories.a_late_deletion_of_a_group_leaves_what_was_committed_since))
def deletion_of_a_group_is_based_on_anything(patch: Patch) -> None:
    """Whatever revision it names."""
    patch.setattr(Revision, "is_after", lambda *_: True)


@mutation(62, hunt=cluster_story(stories.a_late_deletion_of_offsets_leaves_what_was_committed_since))
def deletion_of_offsets_is_based_on_anything(patch: Patch) -> None:
    deletion_of_a_group_is_based_on_anything.apply(patch)


@mutation(62, hunt=StoryHunt(_MODEL, group_stories.a_deletion_is_done_however_often_it_is_asked_for))
def deletion_of_what_is_gone_is_refused(patch: Patch) -> None:
    original = offset_decisions.delete_group

    def delete_group(groups: Groups, name: str, **rest: Any) -> list[GroupRecord]:
        if name not in groups:
            raise GroupNotFound(f"there is no group {name}", group=name)
        return original(groups, name, **rest)

    patch.setattr(offset_decisions, "delete_group", delete_group)


@mutation(62, hunt=StoryHunt(_MODEL, group_stories.an_epoch_is_given_once_though_its_group_was_deleted))
def deleted_group_forgets_its_epochs(patch: Patch) -> None:
    patch.setattr(offset_decisions, "_deleted", lambda _: None)


MUTATIONS: Final[tuple[Mutation, ...]] = mutations_in(globals())
