"""Mutations of what a controller does with words that are older than what it knows (rules 30, 35 and 44)."""

from __future__ import annotations

from typing import Any, Final

from quorate.broker.replica.partition import Partition
from quorate.chaos.mutations.cluster_stories import cluster_story
from quorate.chaos.mutations.late_messages_stories import (
    a_late_heartbeat_keeps_no_dead_process_alive,
    a_late_registration_is_none,
    a_late_report_of_damage_is_void_for_the_next_controller,
    damage_is_told_again_where_a_later_epoch_counts_on_the_replica,
)
from quorate.chaos.mutations.mutation import Mutation, mutation, mutations_in
from quorate.chaos.sim.patch import Patch
from quorate.controller import brokers, heartbeats
from quorate.controller.sessions import BrokerSessions
from quorate.core.ids import LeaderEpoch
from quorate.errors import QuorateError

__all__ = ["MUTATIONS"]


@mutation(35, 30, hunt=cluster_story(a_late_registration_is_none))
def a_registration_may_follow_any_other(patch: Patch) -> None:
    """What the process expects is not compared, so that a late copy of its request makes it the last one."""
    patch.setattr(brokers, "_check_expectation", lambda _registered, _request: None)


@mutation(35, hunt=cluster_story(a_late_heartbeat_keeps_no_dead_process_alive))
def a_heartbeat_of_an_abandoned_stream_is_heard(patch: Patch) -> None:
    """Its number is not compared with that of the last one."""
    patch.setattr(BrokerSessions, "hear", lambda _self, _broker_id, _sequence: True)


@mutation(44, hunt=cluster_story(a_late_report_of_damage_is_void_for_the_next_controller))
def damage_of_an_earlier_leader_epoch_is_believed(patch: Patch) -> None:
    original = heartbeats._give_up

    def give_up(image: Any, broker_id: Any, damaged: Any) -> Any:
        reports = list(damaged)
        for report in reports:
            report.leader_epoch = LeaderEpoch((1 << 31) - 1)
        return original(image, broker_id, reports)

    patch.setattr(heartbeats, "_give_up", give_up)


@mutation(44, hunt=cluster_story(damage_is_told_again_where_a_later_epoch_counts_on_the_replica))
def damage_is_told_in_one_leader_epoch_only(patch: Patch) -> None:
    """The report may have come too late for that one, and is void in the next."""
    original = Partition.fail
    told: list[Partition] = []

    def fail(self: Partition, error: QuorateError) -> None:
        if self not in told:
            told.append(self)
            original(self, error)

    patch.setattr(Partition, "fail", fail)


MUTATIONS: Final[tuple[Mutation, ...]] = mutations_in(globals())
