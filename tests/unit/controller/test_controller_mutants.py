"""Each rule of the controller is switched off in turn, and the model's invariants must notice.

A test that cannot fail proves nothing. Every mutant here is a mistake somebody could make, or has made in
another system: a check left out, a list not emptied, evidence believed too easily.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, Final

import pytest

from quorate.controller import (
    alter_configs,
    alter_partition,
    brokers,
    departures,
    elections,
    heartbeats,
    partition_change,
    previous_run,
    reassignment,
    recover,
)
from quorate.controller.decision import Decision
from quorate.controller.departures import Piece
from quorate.controller.elections import Assignment, Elections
from quorate.controller.lookup import find_partition
from quorate.controller.previous_run import StartKind
from quorate.controller.reassignment import Completion
from quorate.controller.recover import ReplicaEnd
from quorate.controller.sessions import BrokerSessions
from quorate.core.ids import BrokerId, LeaderEpoch
from quorate.errors import InconsistentMetadata
from quorate.metadata.image import NO_LEADER, MetadataImage, PartitionImage, Recovery
from quorate.v1.admin_pb2 import RecoverPartitionRequest
from quorate.v1.controller_pb2 import PartitionAlteration, RegisterBrokerRequest
from tests.unit.controller.controller_model import walk

Patch = pytest.MonkeyPatch

_WALKS_MAX: Final = 150
_STEPS: Final = 300


# --- elections


def elects_outside_the_isr(patch: Patch) -> None:
    _elect_if_nobody(patch, lambda before: before.replicas)


def elects_the_last_known_leader(patch: Patch) -> None:
    _elect_if_nobody(patch, lambda before: before.last_known_elr)


def _elect_if_nobody(patch: Patch, candidates: Callable[[PartitionImage], tuple[BrokerId, ...]]) -> None:
    original = Elections._elect

    def elect(self: Elections, before: PartitionImage, *rest: Any) -> elections._Outcome:
        outcome = original(self, before, *rest)
        found = [each for each in candidates(before) if each in self.active]
        if outcome.leader != NO_LEADER or not found:
            return outcome
        return elections._Outcome(found[0], (found[0],))

    patch.setattr(Elections, "_elect", elect)


def elects_uncleanly_without_leave(patch: Patch) -> None:
    patch.setattr(elections, "unclean_election_enabled", lambda *_: True)


def elects_a_broker_that_leaves(patch: Patch) -> None:
    original = Elections.__init__

    def init(self: Elections, image: MetadataImage, **changes: Any) -> None:
        original(self, image, **{**changes, "leaving": ()})

    patch.setattr(Elections, "__init__", init)


def leader_epoch_stays_when_the_leader_changes(patch: Patch) -> None:
    original = partition_change.change_record

    def change_record(before: PartitionImage, after: PartitionImage) -> Any:
        return original(before, dataclasses.replace(after, leader_epoch=before.leader_epoch))

    patch.setattr(elections, "change_record", change_record)


def registered_broker_keeps_its_leaders(patch: Patch) -> None:
    class Unaware(Elections):
        def __init__(self, image: MetadataImage, **_: Any) -> None:
            super().__init__(image)

    original = departures.leave_partitions

    def leave(*arguments: Any, **more: Any) -> Piece:
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(departures, "Elections", Unaware)
            return original(*arguments, **more)

    patch.setattr(brokers, "leave_partitions", leave)


# --- the ELR


def elr_is_not_kept(patch: Patch) -> None:
    patch.setattr(elections, "_elr_after", lambda *_: ((), ()))


def elr_is_not_emptied(patch: Patch) -> None:
    original = elections._elr_after

    def elr_after(before: PartitionImage, assignment: Assignment, isr: Any, complete: Any, _: int) -> Any:
        return original(before, assignment, isr, complete, 1 << 10)

    patch.setattr(elections, "_elr_after", elr_after)


def elr_survives_a_change_of_min_isr(patch: Patch) -> None:
    _change_with(patch, lambda before, wish: {**wish, "clear_elr": False})


def lossy_replicas_stay_in_the_elr(patch: Patch) -> None:
    _change_with(patch, lambda before, wish: {**wish, "lost": ()})


def _change_with(patch: Patch, altered: Callable[[PartitionImage, dict[str, Any]], dict[str, Any]]) -> None:
    original = Elections.change

    def change(self: Elections, before: PartitionImage, **wish: Any) -> PartitionImage:
        return original(self, before, **altered(before, wish))

    patch.setattr(Elections, "change", change)


# --- starts


def marker_is_ignored(patch: Patch) -> None:
    patch.setattr(brokers, "judge_start", lambda *_: StartKind.CLEAN)


def lossy_start_passes_for_a_process_crash(patch: Patch) -> None:
    _judge_instead(patch, {StartKind.LOSSY: StartKind.PROCESS_CRASH})


def wiped_disk_is_counted(patch: Patch) -> None:
    _judge_instead(patch, {StartKind.UNKNOWN_DIRECTORY: StartKind.PROCESS_CRASH})


def wiped_disk_passes_for_a_power_loss(patch: Patch) -> None:
    _judge_instead(patch, {StartKind.UNKNOWN_DIRECTORY: StartKind.LOSSY})


def process_crash_passes_for_lossy(patch: Patch) -> None:
    _judge_instead(patch, {StartKind.PROCESS_CRASH: StartKind.LOSSY})


def _judge_instead(patch: Patch, instead: dict[StartKind, StartKind]) -> None:
    original = previous_run.judge_start

    def judge(*arguments: Any) -> StartKind:
        kind = original(*arguments)
        return instead.get(kind, kind)

    patch.setattr(brokers, "judge_start", judge)


def old_copy_of_a_directory_is_believed(patch: Patch) -> None:
    def judge(registered: Any, request: RegisterBrokerRequest) -> StartKind:
        if registered is None or request.directory_id != registered.directory_id:
            return StartKind.UNKNOWN_DIRECTORY
        is_lossy = not request.previous_run.is_clean and not request.previous_run.is_same_boot
        return StartKind.LOSSY if is_lossy else StartKind.PROCESS_CRASH

    patch.setattr(brokers, "judge_start", judge)


def incarnations_without_a_note_are_strangers(patch: Patch) -> None:
    original = previous_run.judge_start

    def judge(registered: Any, request: RegisterBrokerRequest) -> StartKind:
        del request.previous_run.unnoted_incarnation_ids[:]
        return original(registered, request)

    patch.setattr(brokers, "judge_start", judge)


def damage_is_ignored_at_registration(patch: Patch) -> None:
    original = brokers._losses

    def losses(image: MetadataImage, request: RegisterBrokerRequest, start: StartKind) -> Any:
        unaware = RegisterBrokerRequest()
        unaware.CopyFrom(request)
        del unaware.damaged[:]
        return original(image, unaware, start)

    patch.setattr(brokers, "_losses", losses)


def damage_leaves_the_leader_epoch_as_it_is(patch: Patch) -> None:
    class Unaware(Elections):
        def change(self, before: PartitionImage, **wish: Any) -> PartitionImage:
            return super().change(before, **{**wish, "bump_leader_epoch": False})

    patch.setattr(heartbeats, "Elections", Unaware)


def second_process_is_registered(patch: Patch) -> None:
    original = brokers.register_broker

    def register(*arguments: Any, has_live_session: bool, **more: Any) -> Any:
        return original(*arguments, has_live_session=False, **more)

    patch.setattr("tests.unit.controller.controller_model.register_broker", register)


# --- sessions and heartbeats


def unfenced_before_it_has_caught_up(patch: Patch) -> None:
    patch.setattr(BrokerSessions, "state_offset", lambda *_: 0)


def unfenced_before_it_knows_that_it_was_fenced(patch: Patch) -> None:
    def state_offset(self: BrokerSessions, broker_id: BrokerId) -> int:
        return self._brokers[broker_id].broker_epoch

    patch.setattr(BrokerSessions, "state_offset", state_offset)


def stops_before_others_know(patch: Patch) -> None:
    patch.setattr(BrokerSessions, "others_offset", lambda *_: None)


def stops_with_its_leaders(patch: Patch) -> None:
    patch.setattr(
        heartbeats, "leave_partitions", lambda image, *_, **__: Piece(Elections(image), is_last=True)
    )


def earlier_runs_are_listened_to(patch: Patch) -> None:
    patch.setattr(heartbeats, "require_broker_epoch", lambda image, broker_id, _: image.brokers[broker_id])


# --- pieces


def fenced_with_the_first_piece(patch: Patch) -> None:
    _call_every_piece_the_last(patch, brokers)


def stopping_with_the_first_piece(patch: Patch) -> None:
    _call_every_piece_the_last(patch, heartbeats)


def _call_every_piece_the_last(patch: Patch, module: Any) -> None:
    def leave(*arguments: Any, **more: Any) -> Piece:
        return departures.leave_partitions(*arguments, **more)._replace(is_last=True)

    patch.setattr(module, "leave_partitions", leave)


def lease_is_renewed_between_two_pieces(patch: Patch) -> None:
    patch.setattr("tests.unit.controller.controller_model.heartbeat", _unaware_heartbeat)


def _unaware_heartbeat(*arguments: Any, **more: Any) -> Any:
    return heartbeats.heartbeat(*arguments, **{**more, "is_given_up": False})


def session_is_revived_between_two_pieces(patch: Patch) -> None:
    patch.setattr(BrokerSessions, "give_up", lambda *_: None)


def what_was_left_is_not_elected(patch: Patch) -> None:
    patch.setattr(
        "tests.unit.controller.controller_model.elect_missing_leaders", lambda *_, **__: Decision((), None)
    )


# --- AlterPartition


def no_partition_epoch_check(patch: Patch) -> None:
    original = alter_partition._check_epochs

    def check(partition: PartitionImage, leader: BrokerId, wish: PartitionAlteration) -> None:
        original(dataclasses.replace(partition, partition_epoch=wish.partition_epoch), leader, wish)

    patch.setattr(alter_partition, "_check_epochs", check)


def no_leader_epoch_check(patch: Patch) -> None:
    """No record is at stake here, and only the kind of the refusal tells.

    Whatever changes the leader epoch or the leader changes the partition epoch too, in the same record, so
    the check of the partition epoch refuses all that this one does. What the leader gets then is "try again
    with what you know now" in place of "you do not lead any more".
    """
    original = alter_partition._check_epochs

    def check(partition: PartitionImage, _: BrokerId, wish: PartitionAlteration) -> None:
        unaware = dataclasses.replace(partition, leader_epoch=LeaderEpoch(wish.leader_epoch))
        original(unaware, partition.leader, wish)

    patch.setattr(alter_partition, "_check_epochs", check)


def no_broker_epoch_check(patch: Patch) -> None:
    _admit(patch, broker_epoch=None)


def fenced_members_are_admitted(patch: Patch) -> None:
    _admit(patch, is_fenced=False)


def members_that_shut_down_are_admitted(patch: Patch) -> None:
    _admit(patch, is_shutting_down=False)


def _admit(patch: Patch, **unseen: Any) -> None:
    """Members are looked at as if this were so; an epoch of None: as the request has it."""
    original = alter_partition._check_eligible

    def check(image: MetadataImage, wish: PartitionAlteration) -> None:
        seen = image.brokers
        for member in wish.isr:
            broker_id = BrokerId(member.broker_id)
            changes: dict[str, Any] = {
                name: member.broker_epoch if value is None else value for name, value in unseen.items()
            }
            seen = seen.set(broker_id, dataclasses.replace(seen[broker_id], **changes))
        original(dataclasses.replace(image, brokers=seen), wish)

    patch.setattr(alter_partition, "_check_eligible", check)


def recovering_partition_grows(patch: Patch) -> None:
    original = alter_partition._check_members

    def check(partition: PartitionImage, wish: PartitionAlteration, _: Recovery) -> None:
        original(partition, wish, Recovery.NORMAL)

    patch.setattr(alter_partition, "_check_members", check)


# --- reassignment


def move_completes_before_everybody_has_caught_up(patch: Patch) -> None:
    def complete(image: MetadataImage, partition: PartitionImage) -> Completion | None:
        if not reassignment.is_reassigning(partition):
            return None
        target = tuple(each for each in partition.replicas if each not in partition.removing_replicas)
        isr = tuple(each for each in partition.isr if each in target)
        return Completion(Assignment(target), isr) if isr else None

    patch.setattr(reassignment, "complete_reassignment", complete)


def move_completes_in_one_step(patch: Patch) -> None:
    """The leader goes, out of the ISR and all, in the record that elects the next one."""

    def complete(image: MetadataImage, partition: PartitionImage) -> Completion | None:
        if not reassignment._is_ready(image, partition):
            return None
        target = reassignment._target_of(partition)
        return Completion(Assignment(target), tuple(each for each in partition.isr if each in target))

    patch.setattr(reassignment, "_can_hand_over", lambda *_: False)
    patch.setattr(reassignment, "complete_reassignment", complete)


def move_completes_when_it_hands_over(patch: Patch) -> None:
    """The leader is told first, and may have heard of it or not."""

    def complete(image: MetadataImage, partition: PartitionImage) -> Completion | None:
        if not reassignment._is_ready(image, partition) or partition.leader in partition.removing_replicas:
            return None
        target = reassignment._target_of(partition)
        return Completion(Assignment(target), tuple(each for each in partition.isr if each in target))

    patch.setattr(reassignment, "complete_reassignment", complete)


def called_off_move_ends_in_one_step(patch: Patch) -> None:
    def cancel(elections_: Elections, image: MetadataImage, partition: PartitionImage) -> PartitionImage:
        adding = partition.adding_replicas
        original = tuple(each for each in partition.replicas if each not in adding)
        isr = tuple(each for each in partition.isr if each not in adding)
        if not isr or not reassignment._is_safe(image, partition, isr, replica_count=len(original)):
            return partition
        return elections_.change(
            partition, isr=isr, assignment=Assignment(original), bump_leader_epoch=bool(adding)
        )

    patch.setattr(reassignment, "cancel_move", cancel)


def lease_is_renewed_whatever_the_broker_knows(patch: Patch) -> None:
    original = heartbeats.heartbeat

    def heartbeat(*arguments: Any, **more: Any) -> Any:
        decision = original(*arguments, **more)
        decision.response.metadata_offset = 0
        return decision

    patch.setattr("tests.unit.controller.controller_model.heartbeat", heartbeat)


def move_adds_to_the_isr(patch: Patch) -> None:
    def altered(before: PartitionImage, wish: dict[str, Any]) -> dict[str, Any]:
        assignment = wish.get("assignment")
        if assignment is None or not assignment.adding:
            return wish
        return {**wish, "isr": (*before.isr, *assignment.adding)}

    _change_with(patch, altered)


def called_off_move_leaves_the_leader_epoch_as_it_is(patch: Patch) -> None:
    _end_moves_in_the_same_epoch(patch, is_completion=False)


def completed_move_leaves_the_leader_epoch_as_it_is(patch: Patch) -> None:
    _end_moves_in_the_same_epoch(patch, is_completion=True)


def _end_moves_in_the_same_epoch(patch: Patch, *, is_completion: bool) -> None:
    def altered(before: PartitionImage, wish: dict[str, Any]) -> dict[str, Any]:
        assignment = wish.get("assignment")
        if assignment is None or not reassignment.is_reassigning(before):
            return wish
        keeps_new_ones = set(assignment.replicas).issuperset(before.adding_replicas)
        return {**wish, "bump_leader_epoch": False} if keeps_new_ones == is_completion else wish

    _change_with(patch, altered)


def move_completes_while_the_partition_is_recovering(patch: Patch) -> None:
    original = reassignment.complete_reassignment

    def complete(image: MetadataImage, partition: PartitionImage) -> Completion | None:
        return original(image, dataclasses.replace(partition, recovery=Recovery.NORMAL))

    patch.setattr(reassignment, "complete_reassignment", complete)


# --- settings


def leader_need_not_know_of_a_higher_min_isr(patch: Patch) -> None:
    patch.setattr(Elections, "renew", lambda _self, _before: None)


def sync_is_promised_for_what_was_not_synced(patch: Patch) -> None:
    patch.setattr(alter_configs, "_check_durability", lambda *_: None)


# --- recovery


def recovery_passes_over_complete_replicas(patch: Patch) -> None:
    def recover_partition(
        image: MetadataImage, request: RecoverPartitionRequest, *, log_ends: Mapping[BrokerId, ReplicaEnd]
    ) -> Any:
        partition = find_partition(image, request.partition)
        complete = (*partition.isr, *partition.elr)
        seen = {each: end for each, end in log_ends.items() if each not in complete}
        return recover.recover_partition(image, request, log_ends=seen)

    patch.setattr("tests.unit.controller.model_operators.recover_partition", recover_partition)


MUTANTS: Final[list[Callable[[Patch], None]]] = [
    elects_outside_the_isr,
    elects_the_last_known_leader,
    elects_uncleanly_without_leave,
    elects_a_broker_that_leaves,
    leader_epoch_stays_when_the_leader_changes,
    registered_broker_keeps_its_leaders,
    elr_is_not_kept,
    elr_is_not_emptied,
    elr_survives_a_change_of_min_isr,
    lossy_replicas_stay_in_the_elr,
    marker_is_ignored,
    lossy_start_passes_for_a_process_crash,
    wiped_disk_is_counted,
    wiped_disk_passes_for_a_power_loss,
    process_crash_passes_for_lossy,
    old_copy_of_a_directory_is_believed,
    incarnations_without_a_note_are_strangers,
    damage_is_ignored_at_registration,
    damage_leaves_the_leader_epoch_as_it_is,
    second_process_is_registered,
    unfenced_before_it_has_caught_up,
    unfenced_before_it_knows_that_it_was_fenced,
    stops_before_others_know,
    stops_with_its_leaders,
    earlier_runs_are_listened_to,
    fenced_with_the_first_piece,
    stopping_with_the_first_piece,
    lease_is_renewed_between_two_pieces,
    session_is_revived_between_two_pieces,
    what_was_left_is_not_elected,
    no_partition_epoch_check,
    no_leader_epoch_check,
    no_broker_epoch_check,
    fenced_members_are_admitted,
    members_that_shut_down_are_admitted,
    recovering_partition_grows,
    move_completes_before_everybody_has_caught_up,
    move_completes_in_one_step,
    move_completes_when_it_hands_over,
    called_off_move_ends_in_one_step,
    lease_is_renewed_whatever_the_broker_knows,
    move_adds_to_the_isr,
    called_off_move_leaves_the_leader_epoch_as_it_is,
    completed_move_leaves_the_leader_epoch_as_it_is,
    move_completes_while_the_partition_is_recovering,
    leader_need_not_know_of_a_higher_min_isr,
    sync_is_promised_for_what_was_not_synced,
    recovery_passes_over_complete_replicas,
]


@pytest.mark.parametrize("mutate", MUTANTS, ids=[mutate.__name__.replace("_", " ") for mutate in MUTANTS])
def test_mutant_is_noticed(mutate: Callable[[Patch], None], monkeypatch: Patch) -> None:
    mutate(monkeypatch)
    with pytest.raises((AssertionError, InconsistentMetadata)):
        _walk_many()


def _walk_many() -> None:
    for seed in range(_WALKS_MAX):
        walk(seed, steps=_STEPS)
