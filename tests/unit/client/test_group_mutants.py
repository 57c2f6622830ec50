"""Each promise of a group consumer is broken in turn, and its test must notice."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from functools import partial
from typing import Any

import pytest

from quorate.chaos.sim.patch import Patch
from quorate.client.consumer.buffer import FetchBuffer
from quorate.client.consumer.engine import ConsumerEngine
from quorate.client.consumer.group import beginnings
from quorate.client.consumer.group.beginnings import Beginnings
from quorate.client.consumer.group.commit_policy import CommitPolicy
from quorate.client.consumer.group.commit_queue import CommitQueue, Offsets
from quorate.client.consumer.group.heartbeats import Heartbeats
from quorate.client.consumer.group.member import Changes, Hold, Member, Tenure
from quorate.client.consumer.group.origin import GroupOrigin
from quorate.client.consumer.group.session import GroupSession
from quorate.client.consumer.iteration import RecordsAhead
from quorate.client.groups import committed
from quorate.client.groups.partitions import GroupPartition
from quorate.errors import FencedMemberEpoch, QuorateError, UnknownServerError
from quorate.v1 import group_pb2
from tests.mutants import assert_story_notices
from tests.unit.client import (
    test_group_beginnings as beginning,
)
from tests.unit.client import (
    test_group_commits as commits,
)
from tests.unit.client import (
    test_group_known_commits as known,
)
from tests.unit.client import (
    test_group_sharing as sharing,
)
from tests.unit.client import (
    test_group_tenures as tenures,
)
from tests.unit.client import (
    test_group_trouble as trouble,
)


def nothing(*_: object, **__: object) -> None:
    pass


async def nothing_later(*_: object, **__: object) -> None:
    pass


# -- giving up


def gives_up_without_waiting_for_the_application(patch: Patch) -> None:
    changed = GroupSession.assignment_changed

    def give_up(self: GroupSession, changes: Changes) -> None:
        changed(self, changes)
        if changes.revoking:
            self._give_up(changes.revoking)

    patch.setattr(GroupSession, "assignment_changed", give_up)


def reads_on_what_it_is_to_give_up(patch: Patch) -> None:
    patch.setattr(FetchBuffer, "retire", nothing)
    patch.setattr(GroupSession, "assignment_changed", _without_retiring(GroupSession.assignment_changed))


def _without_retiring(changed: Callable[..., None]) -> Callable[..., None]:
    def assignment_changed(self: GroupSession, changes: Changes) -> None:
        with Patch() as patch:
            patch.setattr(type(self._fetching), "retire", nothing)
            changed(self, changes)

    return assignment_changed


def does_not_wait_for_commits(patch: Patch) -> None:
    patch.setattr(CommitPolicy, "settle", nothing_later)


def yields_what_it_took_out_before(patch: Patch) -> None:
    def next_record(self: RecordsAhead) -> Any:
        self.steps += 1
        return self._reversed.pop() if self._reversed else None

    patch.setattr(RecordsAhead, "next", next_record)


# -- membership


def believes_the_refusal_of_a_call_that_was_overtaken(patch: Patch) -> None:
    of_interest = Heartbeats._is_of_interest

    def is_of_interest(self: Heartbeats, sent: Any) -> bool:
        is_current = of_interest(self, sent)
        self._member.calls = sent.request.call_number
        return is_current

    patch.setattr(Heartbeats, "_is_of_interest", is_of_interest)


def asks_without_a_pause(patch: Patch) -> None:
    heard = Heartbeats._heard

    def hear(self: Heartbeats, sent: Any, response: group_pb2.GroupHeartbeatResponse) -> None:
        heard(self, sent, response)
        # In simulated time a little pause keeps the test from spinning for ever.
        self._next_at = self._clock.monotonic() + 0.01

    patch.setattr(Heartbeats, "_heard", hear)


def keeps_the_partitions_of_an_application_that_does_not_come_back(patch: Patch) -> None:
    patch.setattr(GroupSession, "_poll_overdue", nothing)


def leaves_for_good_when_it_will_be_back(patch: Patch) -> None:
    leave = Member.leave

    def leave_for_good(self: Member, *, is_away: bool = False) -> Any:
        return leave(self)

    patch.setattr(Member, "leave", leave_for_good)


def does_not_say_farewell_when_it_was_removed(patch: Patch) -> None:
    patch.setattr(GroupSession, "_say_farewell", nothing)


# -- beginning


def does_not_write_down_where_it_begins(patch: Patch) -> None:
    patch.setattr(beginnings, "END", object())


def begins_at_the_end_of_what_came_later(patch: Patch) -> None:
    patch.setattr(GroupOrigin, "is_newer", lambda *_: False)


def takes_silence_for_no_offset(patch: Patch) -> None:
    def believe(link: Any, partitions: Any, *, member: Any = None, timeout_s: float) -> Any:
        return _believe(link, partitions, member, timeout_s)

    async def _believe(link: Any, partitions: Any, member: Any, timeout_s: float) -> dict[Any, Any]:
        try:
            return await fetch(link, partitions, member=member, timeout_s=timeout_s)
        except UnknownServerError:
            return {}

    fetch = committed.fetch_committed
    patch.setattr(beginnings, "fetch_committed", believe)


# -- committing


def commits_what_is_at_work(patch: Patch) -> None:
    take = ConsumerEngine.take

    def take_and_commit(self: ConsumerEngine, max_records: int, *, is_patient: bool = False) -> Any:
        records = take(self, max_records, is_patient=is_patient)
        if self.group is not None and self.group.commit_policy.is_automatic and records:
            self.group.commit_policy._submit_now(self.group.commit_policy.positions(), timeout_s=30)
        return records

    patch.setattr(ConsumerEngine, "take", take_and_commit)


def counts_what_an_error_has_interrupted(patch: Patch) -> None:
    patch.setattr(ConsumerEngine, "unread", nothing)


def takes_back_what_was_committed(patch: Patch) -> None:
    patch.setattr(ConsumerEngine, "unread", lambda self: self.ahead.unread())


def commits_without_the_epoch(patch: Patch) -> None:
    positions = CommitPolicy.positions

    def without_epochs(self: CommitPolicy, *arguments: Any) -> Any:
        found = positions(self, *arguments)
        return {each: offset._replace(leader_epoch=None) for each, offset in found.items()}

    patch.setattr(CommitPolicy, "positions", without_epochs)


def commits_older_offsets_after_newer_ones(patch: Patch) -> None:
    round_ = CommitQueue._round

    async def in_the_wrong_order(self: CommitQueue) -> None:
        self._waiting.reverse()
        await round_(self)

    patch.setattr(CommitQueue, "_round", in_the_wrong_order)


# -- what was lost, and is held again


def commits_what_was_handed_out_before_the_loss(patch: Patch) -> None:
    def tenure_told_of(self: GroupSession, partition: GroupPartition | None) -> Tenure | None:
        return None if partition is None else self.tenure_of(partition)

    patch.setattr(GroupSession, "tenure_told_of", tenure_told_of)


def leaves_out_what_is_lost(patch: Patch) -> None:
    positions = CommitPolicy.positions

    def of_what_is_held(self: CommitPolicy, *arguments: Any) -> Any:
        found = positions(self, *arguments)
        return {each: offset for each, offset in found.items() if self._holder.tenure_told_of(each)}

    patch.setattr(CommitPolicy, "positions", of_what_is_held)


def takes_the_end_of_a_call_for_its_beginning(patch: Patch) -> None:
    identified = CommitPolicy._identified

    async def identified_later(self: CommitPolicy, given: object, timeout_s: float) -> Any:
        offsets, _ = await identified(self, given, timeout_s)
        return offsets, {each: self._holder.tenure_told_of(each) for each in offsets}

    patch.setattr(CommitPolicy, "_identified", identified_later)


def gives_up_what_it_holds_again(patch: Patch) -> None:
    give_up = GroupSession._give_up

    def give_up_all(self: GroupSession, partitions: Collection[GroupPartition]) -> None:
        give_up(self, partitions)
        self._member.given_up([each for each in self._member.held() if each in partitions])

    patch.setattr(GroupSession, "_give_up", give_up_all)


def takes_what_was_given_up_in_the_last_steps_for_lost(patch: Patch) -> None:
    def retire(self: GroupSession, partitions: Iterable[GroupPartition]) -> list[GroupPartition]:
        for each in (lost := list(partitions)):
            if each.name in self._readers:
                self._fetching.retire(self._readers[each.name])
        return lost

    patch.setattr(GroupSession, "_retire", retire)


def begins_where_an_old_answer_says(patch: Patch) -> None:
    tenure_of = Member.tenure_of

    def any_tenure_of(self: Member, partition: GroupPartition, *states: Hold) -> Tenure | None:
        return None if tenure_of(self, partition, *states) is None else Tenure(self.generation, 0)

    patch.setattr(Member, "tenure_of", any_tenure_of)


def tells_that_the_end_of_what_was_taken_away_is_not_committed(patch: Patch) -> None:
    end_refused = Beginnings._end_refused

    async def always_told(self: Beginnings, error: QuorateError, **_: Any) -> None:
        await end_refused(self, error, has_changed=False)

    patch.setattr(Beginnings, "_end_refused", always_told)


def believes_that_nobody_else_has_committed_since(patch: Patch) -> None:
    patch.setattr(CommitPolicy, "_latest_of", lambda self, partition: self._latest.get(partition))


def takes_the_answer_to_an_old_commit_for_news(patch: Patch) -> None:
    were_committed = CommitPolicy.were_committed

    def committed_now(self: CommitPolicy, offsets: Offsets, _: object) -> None:
        were_committed(self, offsets, {each: self._holder.tenure_of(each) for each in offsets})

    patch.setattr(CommitPolicy, "were_committed", committed_now)


def forgets_what_is_on_its_way(patch: Patch) -> None:
    def submit(self: CommitPolicy, offsets: Any, tenures: Any, *, timeout_s: float) -> Any:
        return self._commit_queue.submit(offsets, tenures, timeout_s=timeout_s)

    patch.setattr(CommitPolicy, "_submit", submit)


@pytest.mark.parametrize(
    ("mutation", "story"),
    [
        (
            gives_up_without_waiting_for_the_application,
            partial(
                sharing.test_a_partition_is_given_up_only_when_the_application_has_come_back, callbacks=False
            ),
        ),
        (
            reads_on_what_it_is_to_give_up,
            sharing.test_nothing_of_a_partition_is_handed_out_once_it_is_to_be_given_up,
        ),
        (
            does_not_wait_for_commits,
            commits.test_commits_that_are_under_way_are_waited_for_before_a_partition_is_given_up,
        ),
        (yields_what_it_took_out_before, sharing.test_iteration_stops_at_once_for_what_has_to_be_given_up),
        (
            believes_the_refusal_of_a_call_that_was_overtaken,
            trouble.test_a_call_that_was_overtaken_may_be_refused_without_harm,
        ),
        (asks_without_a_pause, trouble.test_a_coordinator_that_does_not_wait_is_not_called_without_a_pause),
        (
            keeps_the_partitions_of_an_application_that_does_not_come_back,
            trouble.test_an_application_that_does_not_poll_leaves_so_that_others_can_go_on,
        ),
        (
            leaves_for_good_when_it_will_be_back,
            trouble.test_a_static_member_that_restarts_gets_what_it_had_and_nobody_else_notices,
        ),
        (
            does_not_say_farewell_when_it_was_removed,
            partial(
                trouble.test_a_member_that_was_removed_loses_everything_and_comes_back,
                "CommitOffsets",
                FencedMemberEpoch("an old one"),
            ),
        ),
        (
            does_not_write_down_where_it_begins,
            beginning.test_a_group_that_stopped_before_its_first_commit_does_not_skip_what_came_meanwhile,
        ),
        (
            begins_at_the_end_of_what_came_later,
            beginning.test_a_partition_that_was_added_while_nobody_was_there_is_read_from_its_beginning,
        ),
        (
            takes_silence_for_no_offset,
            beginning.test_an_answer_that_leaves_a_partition_out_does_not_say_that_it_has_no_offset,
        ),
        (
            commits_what_is_at_work,
            commits.test_auto_commit_keeps_what_earlier_polls_handed_out_and_nothing_more,
        ),
        (
            counts_what_an_error_has_interrupted,
            partial(
                commits.test_an_error_that_ends_the_application_leaves_its_last_records_to_be_read_again,
                "poll",
            ),
        ),
        (
            takes_back_what_was_committed,
            commits.test_an_error_does_not_take_back_what_the_application_committed_itself,
        ),
        (
            commits_without_the_epoch,
            commits.test_commit_keeps_positions_with_the_epoch_of_the_last_record_that_was_read,
        ),
        (
            commits_older_offsets_after_newer_ones,
            commits.test_a_commit_that_is_tried_again_does_not_undo_a_later_one,
        ),
        (
            commits_what_was_handed_out_before_the_loss,
            partial(tenures.test_what_was_handed_out_before_a_loss_is_not_committed_after_it, "waiting"),
        ),
        (
            leaves_out_what_is_lost,
            partial(tenures.test_a_commit_of_what_is_lost_is_refused_and_not_left_out, "waiting"),
        ),
        (
            takes_the_end_of_a_call_for_its_beginning,
            tenures.test_a_commit_that_waits_for_the_name_of_a_topic_is_of_when_it_was_called,
        ),
        (
            commits_what_was_handed_out_before_the_loss,
            tenures.test_what_was_lost_and_regained_while_it_was_given_up_is_neither_committed_nor_given_up_again,
        ),
        (
            takes_what_was_given_up_in_the_last_steps_for_lost,
            tenures.test_a_member_that_is_removed_between_the_last_steps_of_its_farewell_can_come_back,
        ),
        (
            begins_where_an_old_answer_says,
            tenures.test_an_answer_from_before_a_partition_was_away_does_not_say_where_to_begin,
        ),
        (
            begins_where_an_old_answer_says,
            tenures.test_an_answer_from_before_a_partition_was_away_does_not_say_that_nothing_is_committed,
        ),
        (
            tells_that_the_end_of_what_was_taken_away_is_not_committed,
            tenures.test_a_partition_that_goes_while_its_end_is_written_down_is_no_error_of_the_others,
        ),
        (
            believes_that_nobody_else_has_committed_since,
            tenures.test_an_end_that_was_written_down_before_the_partition_went_away_is_not_known_to_stand,
        ),
        (
            takes_the_answer_to_an_old_commit_for_news,
            tenures.test_a_commit_from_before_a_loss_that_is_answered_after_it_says_nothing_of_what_is_committed_now,
        ),
        (
            forgets_what_is_on_its_way,
            known.test_a_position_is_not_taken_for_committed_while_an_earlier_call_may_undo_it,
        ),
        (
            forgets_what_is_on_its_way,
            known.test_a_position_is_not_taken_for_committed_after_a_commit_whose_outcome_is_unknown,
        ),
        (
            forgets_what_is_on_its_way,
            known.test_an_answer_that_a_later_call_has_overtaken_does_not_say_what_is_committed,
        ),
        (forgets_what_is_on_its_way, known.test_an_error_does_not_take_back_what_is_on_its_way_either),
        (
            gives_up_what_it_holds_again,
            tenures.test_what_was_lost_and_regained_while_it_was_given_up_is_neither_committed_nor_given_up_again,
        ),
    ],
    ids=lambda each: getattr(each, "__name__", ""),
)
def test_a_broken_promise_is_noticed(mutation: Callable[[Patch], None], story: Callable[[], None]) -> None:
    assert_story_notices(mutation, story)
