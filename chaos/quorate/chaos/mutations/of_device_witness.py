"""Mutations of the witness that tells an old copy of a directory from what a crash has left (rule 30)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, Final

from quorate.broker.directory.broker_directory import BrokerDirectory
from quorate.broker.directory.device_witness import DeviceWitness
from quorate.broker.directory.number_file import NumberFile
from quorate.chaos.cluster.faults.kinds import Fault
from quorate.chaos.models.directory import old_copy_checkers as check
from quorate.chaos.mutations.cluster_hunt import ClusterHunt
from quorate.chaos.mutations.hunts import StoryHunt
from quorate.chaos.mutations.model_hunts import CONTROLLER
from quorate.chaos.mutations.mutation import Mutation, mutation, mutations_in
from quorate.chaos.sim.patch import Patch
from quorate.controller import brokers, heard_witnesses, heartbeats, previous_run
from quorate.controller.previous_run import StartKind
from quorate.controller.witnesses import NOTHING_HEARD, HeardWitnesses
from quorate.core.config import Durability
from quorate.metadata.delta import ImageDraft
from quorate.metadata.image import BrokerImage
from quorate.v1.controller_pb2 import RegisterBrokerRequest

__all__ = ["MUTATIONS"]

#: Whoever registers and is not out of the ELR then has to be complete.
_ALL_IN_SYNC: Final = 3
_COPIES: Final = ClusterHunt(
    (Fault.RESTORE_COPY_OF_THIS_RUN, Fault.KILL_LEADER),
    durability=Durability.FSYNC,
    min_insync_replicas=_ALL_IN_SYNC,
)


def _story(checker: Callable[[], Awaitable[None]]) -> StoryHunt:
    return StoryHunt("lives of a directory", checker)


@mutation(30, hunt=_COPIES)
def device_witness_is_never_compared(patch: Patch) -> None:
    original = previous_run.judge_start

    def judge(registered: Any, request: RegisterBrokerRequest) -> StartKind:
        return original(registered, _without_device_witness(request))

    patch.setattr(brokers, "judge_start", judge)


@mutation(30, hunt=CONTROLLER)
def copy_of_the_last_run_passes_for_a_power_loss(patch: Patch) -> None:
    """As where the two witnesses are taken for one."""
    original = previous_run.judge_start

    def judge(registered: Any, request: RegisterBrokerRequest) -> StartKind:
        unaware = original(registered, _without_device_witness(request))
        is_older = original(registered, request) is not unaware
        return StartKind.LOSSY if is_older else unaware

    patch.setattr(brokers, "judge_start", judge)


@mutation(30, hunt=replace(_COPIES, faults=(Fault.RESTORE_COPY_OF_THIS_RUN,)))
def number_of_the_device_is_not_put_on_record(patch: Patch) -> None:
    """Of what this controller has heard the next one knows nothing."""
    original = brokers.broker_change

    def change(broker: BrokerImage, *, heard: HeardWitnesses = NOTHING_HEARD, **wish: Any) -> Any:
        return original(broker, heard=heard._replace(device=None), **wish)

    for module in (brokers, heard_witnesses, heartbeats):
        patch.setattr(module, "broker_change", change)


@mutation(30, hunt=_story(check.check_number_that_is_lost_is_told_to_nobody))
def number_is_told_before_it_is_synced(patch: Patch) -> None:
    def number(self: DeviceWitness) -> int | None:
        is_written = self._advancing is not None
        return self._synced + is_written or None

    patch.setattr(DeviceWitness, "number", property(number))


@mutation(30, hunt=_story(check.check_power_losses_between_numbers))
def number_is_not_synced(patch: Patch) -> None:
    async def advance(self: DeviceWitness) -> None:
        await asyncio.sleep(0)
        self._file.write(self._synced + 1)
        self._synced += 1

    patch.setattr(DeviceWitness, "_advance", advance)
    patch.setattr(DeviceWitness, "advance", advance)


@mutation(30, 45, hunt=_story(check.check_number_whose_sync_failed))
def number_that_was_found_is_synced_as_it_is(patch: Patch) -> None:
    """The process before may have failed to do that, and the page counts as clean since."""

    async def open_file(self: NumberFile) -> None:
        if self.found is None:
            await self._make(0)
        self._file = self._disk.open(self.path)
        await self._file.fdatasync()

    patch.setattr(NumberFile, "open", open_file)


@mutation(30, hunt=_story(check.check_kills_between_numbers))
def numbers_of_the_device_begin_anew_with_each_process(patch: Patch) -> None:
    original = DeviceWitness.begin

    async def begin(self: DeviceWitness) -> None:
        await self._file._make(0)
        await original(self)
        self._synced = 0

    patch.setattr(DeviceWitness, "begin", begin)


@mutation(30, hunt=_story(check.check_copy_that_starts_in_vain))
def number_goes_on_before_the_registration(patch: Patch) -> None:
    original = BrokerDirectory.recover_logs

    async def recover_logs(self: BrokerDirectory, *arguments: Any) -> None:
        await original(self, *arguments)
        await self._device_witness.advance()

    patch.setattr(BrokerDirectory, "recover_logs", recover_logs)


@mutation(30, hunt=CONTROLLER)
def what_was_lost_is_asked_for_ever_after(patch: Patch) -> None:
    """A directory that was found out once is a stranger's until it has counted up to there again."""
    original = ImageDraft.put_broker

    def put(self: ImageDraft, broker: BrokerImage) -> None:
        known = self._brokers.get(broker.broker_id)
        number = 0 if known is None else known.device_witness
        original(self, replace(broker, device_witness=max(number, broker.device_witness)))

    patch.setattr(ImageDraft, "put_broker", put)


def _without_device_witness(request: RegisterBrokerRequest) -> RegisterBrokerRequest:
    unaware = RegisterBrokerRequest()
    unaware.CopyFrom(request)
    unaware.previous_run.ClearField("device_witness")
    return unaware


MUTATIONS: Final[tuple[Mutation, ...]] = mutations_in(globals())
