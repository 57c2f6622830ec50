"""Each promise of a coordinator is broken in turn, and its test must notice."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

import pytest

from quorate.broker.controller_link.lease import Lease, fenced
from quorate.broker.groups import loading, shard
from quorate.broker.groups import upkeep as group_upkeep
from quorate.broker.groups.ends import Ends, _Leader
from quorate.broker.groups.group_members import GroupMembers
from quorate.broker.groups.heartbeats import Heartbeat, Heartbeats
from quorate.broker.groups.member_clocks import MemberClocks, MemberKey, Overdue
from quorate.broker.groups.offsets_topic import OffsetsTopic
from quorate.broker.groups.records import decode_record
from quorate.broker.groups.revisions import BEFORE_ALL
from quorate.broker.groups.shard import GroupShard
from quorate.broker.groups.upkeep import GroupUpkeep
from quorate.broker.handlers import appending
from quorate.broker.partition_ends import PartitionEnds
from quorate.chaos.sim.patch import Patch
from quorate.core.records import Record
from quorate.core.transport import Call
from quorate.errors import QuorateError
from quorate.storage.retention_time import RetentionTime
from tests.mutants import assert_story_notices
from tests.unit.groups_coordinator import (
    test_group_answers as answers,
)
from tests.unit.groups_coordinator import (
    test_group_descriptions as descriptions,
)
from tests.unit.groups_coordinator import (
    test_group_ends as ends,
)
from tests.unit.groups_coordinator import (
    test_group_heartbeats as heartbeats,
)
from tests.unit.groups_coordinator import (
    test_group_loading as loadings,
)
from tests.unit.groups_coordinator import (
    test_group_upkeep as upkeep,
)
from tests.unit.groups_coordinator import (
    test_internal_topics as internal_topics,
)
from tests.unit.groups_coordinator.group_world import GroupWorld, simulate

Story = Callable[[GroupWorld], Awaitable[None]]


def nothing(*_: object, **__: object) -> None:
    pass


# -- answers


def answers_do_not_wait_for_the_commit(patch: Patch) -> None:
    async def committed(*_: object) -> None:
        pass

    patch.setattr(GroupShard, "_wait_for_commit", committed)


def looks_do_not_wait_for_the_commit(patch: Patch) -> None:
    """Rule 56."""
    committed = GroupShard.committed

    async def only_changes(self: GroupShard, *, is_appended: bool) -> None:
        if is_appended:
            await committed(self, is_appended=True)

    patch.setattr(GroupShard, "committed", only_changes)


def the_lease_is_not_looked_at(patch: Patch) -> None:
    """Rule 37."""
    patch.setattr(Lease, "is_valid", property(lambda _: True))


def the_lease_is_looked_at_when_the_request_comes(patch: Patch) -> None:
    async def committed(self: GroupShard, *, is_appended: bool) -> None:
        if not self.context.hosted.lease.is_valid:
            raise fenced()
        try:
            await self._wait_for_commit(self._replica.log.log_end_offset)
        except QuorateError as error:
            raise self._not_confirmed(error, is_appended=is_appended) from error

    patch.setattr(GroupShard, "committed", committed)


def an_end_of_the_leadership_is_not_noticed(patch: Patch) -> None:
    patch.setattr(GroupShard, "_on_news", nothing)


def what_was_appended_counts_as_refused_when_the_leadership_ends(patch: Patch) -> None:
    """Rule 19."""
    not_confirmed = GroupShard._not_confirmed

    def never_unknown(self: GroupShard, error: Any, *, is_appended: bool) -> QuorateError:
        del is_appended
        return not_confirmed(self, error, is_appended=False)

    patch.setattr(GroupShard, "_not_confirmed", never_unknown)


def what_is_refused_is_applied_all_the_same(patch: Patch) -> None:
    """Rule 53."""
    carry_out = GroupShard.carry_out

    def apply_first(self: GroupShard, records: Any) -> None:
        for record in records:
            self.groups.apply(record, BEFORE_ALL)
        carry_out(self, records)

    patch.setattr(GroupShard, "carry_out", apply_first)


def refusals_leave_at_once(patch: Patch) -> None:
    async def answer(self: GroupMembers, heartbeat: Heartbeat) -> Any:
        told = self._decide(heartbeat)
        await self._shard.committed(is_appended=False)
        return told

    patch.setattr(GroupMembers, "_answer", answer)


# -- loading


def calls_are_answered_while_it_is_loaded(patch: Patch) -> None:
    """Rule 63."""
    patch.setattr(GroupShard, "check_loaded", nothing)


def what_cannot_be_understood_is_skipped(patch: Patch) -> None:
    """Rule 63."""

    def skip(key: bytes, value: bytes | None) -> Any:
        try:
            return decode_record(key, value)
        except QuorateError:
            return None

    patch.setattr(loading, "decode_record", skip)


def what_was_deleted_before_was_never_there(patch: Patch) -> None:
    async def load(*args: Any) -> Any:
        groups = await loading.load(*args)
        groups.forgotten_at = BEFORE_ALL
        return groups

    patch.setattr(shard, "load", load)


def everything_is_loaded_in_one_turn(patch: Patch) -> None:
    patch.setattr(loading, "_RECORDS_PER_TURN", 1 << 60)


def tombstones_are_not_read_back(patch: Patch) -> None:
    def keep(latest: dict[bytes, Any], records: Sequence[Record], leader_epoch: int) -> None:
        there = [record for record in records if record.value is not None]
        latest.update((record.key or b"", loading._InEpoch(record, leader_epoch)) for record in there)

    patch.setattr(loading, "_take_over", keep)


def the_first_record_of_a_key_is_kept(patch: Patch) -> None:
    def keep(latest: dict[bytes, Any], records: Sequence[Record], leader_epoch: int) -> None:
        for record in records:
            latest.setdefault(record.key or b"", loading._InEpoch(record, leader_epoch))

    patch.setattr(loading, "_take_over", keep)


# -- members


def nobody_is_woken(patch: Patch) -> None:
    patch.setattr(Heartbeat, "wake", nothing)


def an_older_call_stays(patch: Patch) -> None:
    def begin(self: Heartbeats, heartbeat: Heartbeat) -> None:
        members = self._by_group.setdefault(heartbeat.key.group, {})
        before = members.get(heartbeat.key.member_id)
        if before is not None:
            before.is_superseded = True
        members[heartbeat.key.member_id] = heartbeat

    patch.setattr(Heartbeats, "begin", begin)


def an_older_call_that_breaks_off_counts_too(patch: Patch) -> None:
    async def heartbeat(self: GroupMembers, request: Any) -> Any:
        call = Heartbeat(request)
        self._under_way.begin(call)
        try:
            return await self._answer(call)
        except asyncio.CancelledError:
            self._clocks.broke_off(call.key)
            raise
        finally:
            self._under_way.end(call)

    patch.setattr(GroupMembers, "heartbeat", heartbeat)


def sessions_have_no_end(patch: Patch) -> None:
    patch.setattr(GroupMembers, "_remove", nothing)


def calls_do_not_count(patch: Patch) -> None:
    patch.setattr(MemberClocks, "heard", nothing)


def a_call_that_breaks_off_is_no_sign(patch: Patch) -> None:
    patch.setattr(MemberClocks, "broke_off", nothing)


def a_call_that_breaks_off_is_proof(patch: Patch) -> None:
    def remove(self: MemberClocks, key: MemberKey) -> None:
        self._on_overdue(key, Overdue.GRACE)

    patch.setattr(MemberClocks, "broke_off", remove)


def static_members_are_like_others(patch: Patch) -> None:
    add = MemberClocks.add

    def as_any_other(self: MemberClocks, key: MemberKey, *, is_static: bool) -> None:
        del is_static
        add(self, key, is_static=False)

    patch.setattr(MemberClocks, "add", as_any_other)


def successors_of_static_members_wait(patch: Patch) -> None:
    patch.setattr(MemberClocks, "is_broken", lambda *_: False)


def any_static_member_has_to_make_way(patch: Patch) -> None:
    patch.setattr(MemberClocks, "is_broken", lambda *_: True)


def nobody_has_to_give_up_in_time(patch: Patch) -> None:
    patch.setattr(MemberClocks, "must_revoke", nothing)


def members_that_were_loaded_have_no_session(patch: Patch) -> None:
    patch.setattr(GroupMembers, "_loaded", nothing)


def sessions_go_on_from_nowhere(patch: Patch) -> None:
    add = MemberClocks.add

    def add_late(self: MemberClocks, key: MemberKey, *, is_static: bool) -> None:
        add(self, key, is_static=is_static)
        member = self._members[key]
        if self._clock.monotonic() > self._session_timeout_s - 2:
            member.heard_at -= self._session_timeout_s / 2
            self._push(key, member)

    patch.setattr(MemberClocks, "add", add_late)


# -- ends


def any_offset_may_be_committed(patch: Patch) -> None:
    async def reach(*_: object) -> dict[Any, Any]:
        return {}

    patch.setattr(Ends, "find_unreached", reach)


def everybody_asks_for_himself(patch: Patch) -> None:
    ask_about = _Leader.ask_about

    def alone(self: _Leader, key: Any) -> Any:
        return ask_about(_Leader(self._ends, self._calls, self._broker_id), key)

    patch.setattr(_Leader, "ask_about", alone)


def a_question_under_way_serves_everybody(patch: Patch) -> None:
    ask_about = _Leader.ask_about
    under_way: dict[Any, Any] = {}

    def share(self: _Leader, key: Any) -> Any:
        if key not in under_way or under_way[key].done():
            under_way[key] = ask_about(self, key)
        return under_way[key]

    patch.setattr(_Leader, "ask_about", share)


def whoever_leads_says_so_without_a_lease(patch: Patch) -> None:
    """Rule 37."""
    describe = PartitionEnds.describe

    async def describe_anyway(self: PartitionEnds, request: Any, call: Call | None = None) -> Any:
        with Patch() as inner:
            inner.setattr(Lease, "is_valid", property(lambda _: True))
            return await describe(self, request, call)

    patch.setattr(PartitionEnds, "describe", describe_anyway)


# -- upkeep


def topics_that_changed_before_are_not_looked_at(patch: Patch) -> None:
    patch.setattr(GroupUpkeep, "look_at_all", nothing)


def all_groups_are_looked_at_in_one_turn(patch: Patch) -> None:
    patch.setattr(group_upkeep, "_GROUPS_PER_TURN", 1 << 60)


def the_wall_clock_is_believed(patch: Patch) -> None:
    patch.setattr(RetentionTime, "now_ms", lambda self: self._clock.wall_ms())


def stamps_are_the_wall_clocks(patch: Patch) -> None:
    patch.setattr(RetentionTime, "stamp_ms", lambda self: self._clock.wall_ms())


def nothing_expires(patch: Patch) -> None:
    async def expire(*_: object) -> None:
        pass

    patch.setattr(GroupUpkeep, "_expire_in", expire)


def everybody_makes_the_topic(patch: Patch) -> None:
    async def require(self: OffsetsTopic, timeout_s: float) -> Any:
        del timeout_s
        await self._create("A" * 22)  # type: ignore[arg-type]
        while (topic := self.find()) is None:
            await self._news.wait(self._clock, 1.0)
        return topic

    patch.setattr(OffsetsTopic, "require", require)


def clients_may_write_to_the_topic_of_offsets(patch: Patch) -> None:
    patch.setattr(appending, "check_not_internal", nothing)


READ = partial(answers.what_was_looked_at_is_told_when_it_is_committed, method="FetchOffsets")
FENCED = partial(answers.nothing_is_told_without_the_lease, method="FetchOffsets")
FENCED_LATER = partial(answers.the_lease_counts_when_the_answer_leaves, method="FetchOffsets")


@pytest.mark.parametrize(
    ("mutant", "story"),
    [
        (answers_do_not_wait_for_the_commit, answers.a_commit_is_answered_when_it_is_on_enough_replicas),
        (looks_do_not_wait_for_the_commit, READ),
        (looks_do_not_wait_for_the_commit, answers.an_offset_that_is_never_committed_is_never_told),
        (the_lease_is_not_looked_at, FENCED),
        (the_lease_is_looked_at_when_the_request_comes, FENCED_LATER),
        (
            an_end_of_the_leadership_is_not_noticed,
            heartbeats.whoever_waits_is_told_who_coordinates_from_now_on,
        ),
        (
            what_was_appended_counts_as_refused_when_the_leadership_ends,
            answers.an_offset_that_is_never_committed_is_never_told,
        ),
        (what_is_refused_is_applied_all_the_same, answers.an_append_that_is_refused_changes_nothing),
        (refusals_leave_at_once, answers.a_member_is_told_of_its_removal_when_that_is_committed),
        (calls_are_answered_while_it_is_loaded, loadings.until_it_is_loaded_every_call_is_put_off),
        (
            what_cannot_be_understood_is_skipped,
            loadings.what_cannot_be_understood_is_an_error_and_not_nothing,
        ),
        (what_was_deleted_before_was_never_there, loadings.what_was_deleted_is_not_brought_back),
        (everything_is_loaded_in_one_turn, loadings.loading_does_not_hold_the_loop),
        (the_first_record_of_a_key_is_kept, loadings.what_was_decided_before_is_there_afterwards),
        (tombstones_are_not_read_back, upkeep.offsets_of_a_group_without_members_expire),
        (nobody_is_woken, heartbeats.a_change_is_told_at_once_to_whom_it_concerns),
        (an_older_call_stays, heartbeats.a_newer_call_answers_the_older_one_at_once),
        (an_older_call_that_breaks_off_counts_too, heartbeats.a_call_that_was_replaced_may_break_off),
        (sessions_have_no_end, heartbeats.everybody_has_a_whole_session_when_a_coordinator_takes_over),
        (calls_do_not_count, heartbeats.a_silent_member_is_removed_after_its_session),
        (calls_do_not_count, heartbeats.a_member_that_is_heard_of_again_in_time_stays),
        (
            a_call_that_breaks_off_is_no_sign,
            heartbeats.a_member_whose_call_breaks_off_is_removed_after_a_moment,
        ),
        (a_call_that_breaks_off_is_proof, heartbeats.a_member_that_is_heard_of_again_in_time_stays),
        (static_members_are_like_others, heartbeats.a_static_member_has_its_whole_session),
        (successors_of_static_members_wait, heartbeats.a_static_member_that_died_has_a_successor_at_once),
        (any_static_member_has_to_make_way, heartbeats.a_static_member_that_died_has_a_successor_at_once),
        (nobody_has_to_give_up_in_time, heartbeats.a_member_that_does_not_give_up_in_time_is_removed),
        (
            members_that_were_loaded_have_no_session,
            heartbeats.everybody_has_a_whole_session_when_a_coordinator_takes_over,
        ),
        (
            sessions_go_on_from_nowhere,
            heartbeats.everybody_has_a_whole_session_when_a_coordinator_takes_over,
        ),
        (any_offset_may_be_committed, ends.an_offset_beyond_what_is_committed_is_refused),
        (everybody_asks_for_himself, ends.many_commits_share_a_question),
        (
            a_question_under_way_serves_everybody,
            ends.a_question_that_is_under_way_says_nothing_about_what_comes_later,
        ),
        (
            whoever_leads_says_so_without_a_lease,
            ends.this_broker_does_not_believe_itself_without_its_lease,
        ),
        (whoever_leads_says_so_without_a_lease, descriptions.a_leader_without_its_lease_says_nothing),
        (
            topics_that_changed_before_are_not_looked_at,
            upkeep.what_happened_while_nobody_coordinated_is_made_up_for,
        ),
        (all_groups_are_looked_at_in_one_turn, upkeep.very_many_groups_are_looked_at_in_many_turns),
        (the_wall_clock_is_believed, upkeep.a_clock_that_jumps_makes_no_group_forget),
        (
            stamps_are_the_wall_clocks,
            upkeep.a_clock_that_was_behind_and_is_put_right_makes_no_group_forget,
        ),
        (nothing_expires, upkeep.offsets_of_a_group_without_members_expire),
        (everybody_makes_the_topic, upkeep.where_there_is_no_topic_yet_it_is_asked_for_once),
        (clients_may_write_to_the_topic_of_offsets, internal_topics.clients_cannot_write_to_it),
    ],
    ids=lambda each: getattr(each, "__name__", None) or getattr(each, "func", each).__name__,
)
def test_a_mutant_is_caught(mutant: Callable[[Patch], None], story: Story) -> None:
    assert_story_notices(mutant, lambda: simulate(story))
