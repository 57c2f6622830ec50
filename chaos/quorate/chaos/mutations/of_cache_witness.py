"""Mutations of the witness that tells whether the page cache has survived (rule 30)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

from quorate.broker.directory.broker_directory import BrokerDirectory
from quorate.broker.directory.cache_witness import CacheWitness
from quorate.chaos.cluster.faults.kinds import Fault
from quorate.chaos.models.directory import directory_checkers as check
from quorate.chaos.mutations.cluster_hunt import ClusterHunt
from quorate.chaos.mutations.hunts import StoryHunt
from quorate.chaos.mutations.model_hunts import CONTROLLER
from quorate.chaos.mutations.mutation import Mutation, mutation, mutations_in
from quorate.chaos.sim.patch import Patch
from quorate.controller import brokers, duties, previous_run
from quorate.controller.decision import Decision
from quorate.controller.previous_run import StartKind
from quorate.controller.sessions import BrokerSessions
from quorate.controller.witnesses import NOTHING_HEARD, HeardWitnesses, with_heard_witnesses
from quorate.metadata.image import BrokerImage
from quorate.v1.controller_pb2 import RegisterBrokerRequest

__all__ = ["MUTATIONS"]

_BEYOND_ALL_NUMBERS: Final = (1 << 63) - 1


def _story(checker: Callable[[], Awaitable[None]]) -> StoryHunt:
    return StoryHunt("lives of a directory", checker)


_VOLUMES: Final = ClusterHunt((Fault.LOSE_PAGE_CACHE, Fault.KILL_LEADER))


@mutation(30, hunt=_VOLUMES)
def lost_page_cache_passes_for_a_process_crash(patch: Patch) -> None:
    original = previous_run.judge_start

    def judge(registered: Any, request: RegisterBrokerRequest) -> StartKind:
        unaware = RegisterBrokerRequest()
        unaware.CopyFrom(request)
        unaware.previous_run.cache_witness = _BEYOND_ALL_NUMBERS
        return original(registered, unaware)

    patch.setattr(brokers, "judge_start", judge)


@mutation(30, hunt=_VOLUMES)
def number_that_was_heard_is_not_put_on_record(patch: Patch) -> None:
    def with_heard(broker: BrokerImage, heard: HeardWitnesses) -> BrokerImage:
        return with_heard_witnesses(broker, heard._replace(cache=None))

    patch.setattr(brokers, "with_heard_witnesses", with_heard)


@mutation(30, hunt=_VOLUMES)
def numbers_go_on_record_only_with_other_news(patch: Patch) -> None:
    """Where broker and active controller go down together, nobody knows of any later one."""
    patch.setattr(duties, "record_heard_witnesses", lambda *_: Decision((), None))


@mutation(30, hunt=CONTROLLER)
def number_that_is_not_on_record_is_not_looked_at(patch: Patch) -> None:
    patch.setattr(BrokerSessions, "heard_witnesses", lambda *_: NOTHING_HEARD)


@mutation(30, hunt=_story(check.check_page_cache_lost_unnoticed))
def number_is_told_without_being_written(patch: Patch) -> None:
    original = CacheWitness.advance

    def advance(self: CacheWitness) -> int | None:
        number = original(self)
        self._number -= 1
        return None if number is None else number - 1

    patch.setattr(CacheWitness, "advance", advance)


@mutation(30, hunt=_story(check.check_kills_of_many_processes))
def numbers_begin_anew_with_each_process(patch: Patch) -> None:
    original = CacheWitness.begin

    async def begin(self: CacheWitness) -> None:
        self._number = 0
        await self._file._make(0)
        await original(self)

    patch.setattr(CacheWitness, "begin", begin)


@mutation(30, hunt=_story(check.check_page_cache_lost_during_a_recovery))
def witness_is_synced_before_the_logs(patch: Patch) -> None:
    original = BrokerDirectory.recover_logs

    async def recover_logs(self: BrokerDirectory, *arguments: Any) -> None:
        await self._begin_witness(self._witness)
        await original(self, *arguments)

    patch.setattr(BrokerDirectory, "recover_logs", recover_logs)


@mutation(30, hunt=_story(check.check_losses_after_a_clean_stop))
def witness_is_not_synced_before_the_marker(patch: Patch) -> None:
    async def seal(self: CacheWitness) -> None:
        self.close()

    patch.setattr(CacheWitness, "seal", seal)


MUTATIONS: Final[tuple[Mutation, ...]] = mutations_in(globals())
