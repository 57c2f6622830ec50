"""Mutations of how the controller takes brokers in, hears them, and lets them go."""

from __future__ import annotations

from typing import Any, Final

from quorate.chaos.models.controller import model_processes
from quorate.chaos.mutations.model_hunts import CONTROLLER
from quorate.chaos.mutations.mutation import Mutation, mutation, mutations_in
from quorate.chaos.sim.patch import Patch
from quorate.controller import (
    brokers,
    departures,
    heartbeats,
    leaderless,
    previous_run,
)
from quorate.controller.departures import Piece
from quorate.controller.elections import Elections
from quorate.controller.previous_run import StartKind
from quorate.controller.sessions import BrokerSessions
from quorate.core.ids import BrokerId
from quorate.metadata.image import PartitionImage
from quorate.v1.controller_pb2 import RegisterBrokerRequest

__all__ = ["MUTATIONS"]


# -- starts


@mutation(30, hunt=CONTROLLER)
def marker_is_ignored(patch: Patch) -> None:
    patch.setattr(brokers, "judge_start", lambda *_: StartKind.CLEAN)


@mutation(30, hunt=CONTROLLER)
def lossy_start_passes_for_a_process_crash(patch: Patch) -> None:
    _judge_instead(patch, {StartKind.LOSSY: StartKind.PROCESS_CRASH})


@mutation(32, hunt=CONTROLLER)
def wiped_disk_is_counted(patch: Patch) -> None:
    _judge_instead(patch, {StartKind.UNKNOWN_DIRECTORY: StartKind.PROCESS_CRASH})


@mutation(32, hunt=CONTROLLER)
def wiped_disk_passes_for_a_power_loss(patch: Patch) -> None:
    _judge_instead(patch, {StartKind.UNKNOWN_DIRECTORY: StartKind.LOSSY})


@mutation(30, hunt=CONTROLLER)
def process_crash_passes_for_lossy(patch: Patch) -> None:
    _judge_instead(patch, {StartKind.PROCESS_CRASH: StartKind.LOSSY})


def _judge_instead(patch: Patch, instead: dict[StartKind, StartKind]) -> None:
    original = previous_run.judge_start

    def judge(*arguments: Any) -> StartKind:
        kind = original(*arguments)
        return instead.get(kind, kind)

    patch.setattr(brokers, "judge_start", judge)


@mutation(30, hunt=CONTROLLER)
def old_copy_of_a_directory_is_believed(patch: Patch) -> None:
    def judge(registered: Any, request: RegisterBrokerRequest) -> StartKind:
        if registered is None or request.directory_id != registered.directory_id:
            return StartKind.UNKNOWN_DIRECTORY
        is_lossy = not request.previous_run.is_clean and not request.previous_run.is_same_boot
        return StartKind.LOSSY if is_lossy else StartKind.PROCESS_CRASH

    patch.setattr(brokers, "judge_start", judge)


@mutation(30, hunt=CONTROLLER)
def incarnations_without_a_note_are_strangers(patch: Patch) -> None:
    original = previous_run.judge_start

    def judge(registered: Any, request: RegisterBrokerRequest) -> StartKind:
        del request.previous_run.unnoted_incarnation_ids[:]
        return original(registered, request)

    patch.setattr(brokers, "judge_start", judge)


@mutation(44, hunt=CONTROLLER)
def damage_is_ignored_at_registration(patch: Patch) -> None:
    original = brokers._losses

    def losses(request: RegisterBrokerRequest, start: StartKind) -> Any:
        unaware = RegisterBrokerRequest()
        unaware.CopyFrom(request)
        del unaware.damaged[:]
        return original(unaware, start)

    patch.setattr(brokers, "_losses", losses)


@mutation(7, hunt=CONTROLLER)
def damage_leaves_the_leader_epoch_as_it_is(patch: Patch) -> None:
    class Unaware(Elections):
        def change(self, before: PartitionImage, **wish: Any) -> PartitionImage:
            return super().change(before, **{**wish, "bump_leader_epoch": False})

    patch.setattr(heartbeats, "Elections", Unaware)


@mutation(35, hunt=CONTROLLER)
def second_process_is_registered(patch: Patch) -> None:
    original = brokers.register_broker

    def register(*arguments: Any, has_live_session: bool, **more: Any) -> Any:
        return original(*arguments, has_live_session=False, **more)

    patch.setattr(model_processes, "register_broker", register)


# -- sessions and heartbeats


@mutation(36, hunt=CONTROLLER)
def unfenced_before_it_has_caught_up(patch: Patch) -> None:
    patch.setattr(BrokerSessions, "state_offset", lambda *_: 0)


@mutation(37, hunt=CONTROLLER)
def unfenced_before_it_knows_that_it_was_fenced(patch: Patch) -> None:
    def state_offset(self: BrokerSessions, broker_id: BrokerId) -> int:
        return self._brokers[broker_id].broker_epoch

    patch.setattr(BrokerSessions, "state_offset", state_offset)


@mutation(36, hunt=CONTROLLER)
def stops_before_others_know(patch: Patch) -> None:
    patch.setattr(BrokerSessions, "others_offset", lambda *_: None)


@mutation(36, hunt=CONTROLLER)
def stops_with_its_leaders(patch: Patch) -> None:
    patch.setattr(
        heartbeats, "leave_partitions", lambda image, *_, **__: Piece(Elections(image), is_last=True)
    )


@mutation(35, hunt=CONTROLLER)
def earlier_runs_are_listened_to(patch: Patch) -> None:
    patch.setattr(heartbeats, "require_broker_epoch", lambda image, broker_id, _: image.brokers[broker_id])


# -- pieces


@mutation(36, hunt=CONTROLLER)
def fenced_with_the_first_piece(patch: Patch) -> None:
    _call_every_piece_the_last(patch, brokers)


@mutation(36, hunt=CONTROLLER)
def stopping_with_the_first_piece(patch: Patch) -> None:
    _call_every_piece_the_last(patch, heartbeats)


def _call_every_piece_the_last(patch: Patch, module: Any) -> None:
    def leave(*arguments: Any, **more: Any) -> Piece:
        return departures.leave_partitions(*arguments, **more)._replace(is_last=True)

    patch.setattr(module, "leave_partitions", leave)


@mutation(37, hunt=CONTROLLER)
def lease_is_renewed_between_two_pieces(patch: Patch) -> None:
    patch.setattr(BrokerSessions, "is_given_up", lambda *_: False)


@mutation(37, hunt=CONTROLLER)
def session_is_revived_between_two_pieces(patch: Patch) -> None:
    patch.setattr(BrokerSessions, "give_up", lambda *_: None)


@mutation(27, hunt=CONTROLLER)
def what_was_left_is_not_elected(patch: Patch) -> None:
    patch.setattr(leaderless, "elect_waiting", lambda *_, **__: True)


MUTATIONS: Final[tuple[Mutation, ...]] = mutations_in(globals())
