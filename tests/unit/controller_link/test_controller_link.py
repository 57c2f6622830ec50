"""Finding the active controller, and what a call is told in the end."""

from __future__ import annotations

import pytest

from quorate.errors import (
    ControllerMoved,
    DuplicateBroker,
    NoController,
    NotController,
    Overloaded,
    QuorateError,
    RequestTimedOut,
    StaleBrokerEpoch,
    Unavailable,
    UnexpectedBrokerEpoch,
)
from quorate.v1.controller_pb2 import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from tests.unit.controller_link.scripted_controllers import CONTROLLER, ScriptedWorld, run_scripted

_METHOD = CONTROLLER["AllocateProducerIds"]
_ANSWER = AllocateProducerIdsResponse(first_producer_id=5, count=10)


async def _call(world: ScriptedWorld, *, timeout_s: float = 10.0, is_repeatable: bool = True) -> object:
    request = AllocateProducerIdsRequest(broker_id=7)
    return await world.link.call(_METHOD, request, timeout_s=timeout_s, is_repeatable=is_repeatable)


def test_the_controller_that_another_one_names_is_asked_at_once() -> None:
    async def scenario(world: ScriptedWorld) -> None:
        _, second = world.controllers
        world.controllers[0].reactions = [NotController("no", controller_address=second.address)]
        second.reactions = [_ANSWER]
        # Known only by its name from the first: a voter that was added later.
        assert await _call(world) == _ANSWER
        assert world.now < 0.05
        assert world.link.target == second.address

    run_scripted(scenario, controllers=2)


def test_a_controller_that_is_dead_or_knows_nothing_is_passed_over() -> None:
    async def scenario(world: ScriptedWorld) -> None:
        first, second, third = world.controllers
        world.link = world.link_to(each.address for each in world.controllers)
        first.kill()
        second.reactions = [NotController("and I know of none")]
        third.reactions = [_ANSWER]
        assert await _call(world) == _ANSWER
        assert world.link.target == third.address

    run_scripted(scenario, controllers=3)


@pytest.mark.parametrize("refusal", [NoController("not yet"), Overloaded("busy"), ControllerMoved("lost it")])
def test_the_right_controller_is_asked_again_until_it_is_ready(refusal: Exception) -> None:
    async def scenario(world: ScriptedWorld) -> None:
        [controller] = world.controllers
        controller.reactions = [refusal, refusal, refusal, _ANSWER]  # type: ignore[list-item]  # Quorate's own
        assert await _call(world) == _ANSWER
        assert len(controller.calls) == 4

    run_scripted(scenario)


@pytest.mark.parametrize("refusal", [UnexpectedBrokerEpoch("another one"), DuplicateBroker("it lives")])
def test_a_refused_registration_is_asked_for_again_where_it_was_refused(refusal: QuorateError) -> None:
    """Only the active controller refuses it so; the next one may be dead, and a start would wait for that."""

    async def scenario(world: ScriptedWorld) -> None:
        world.link = world.link_to(each.address for each in world.controllers)
        target = world.link.target
        for controller in world.controllers:
            controller.reactions = [refusal]
        with pytest.raises(type(refusal)):
            await _call(world)
        assert world.link.target == target

    run_scripted(scenario, controllers=2)


def test_a_call_ends_when_its_time_is_up() -> None:
    async def scenario(world: ScriptedWorld) -> None:
        world.controllers[0].reactions = [None]
        with pytest.raises(RequestTimedOut):
            await _call(world, timeout_s=7.0)
        assert world.now <= 7.1

    run_scripted(scenario)


def test_a_refusal_of_the_active_controller_is_not_asked_for_again() -> None:
    async def scenario(world: ScriptedWorld) -> None:
        [controller] = world.controllers
        controller.reactions = [DuplicateBroker("it lives")]
        with pytest.raises(DuplicateBroker):
            await _call(world)
        assert len(controller.calls) == 1

    run_scripted(scenario)


def test_a_refusal_after_an_attempt_of_unknown_outcome_does_not_claim_that_nothing_was_done() -> None:
    async def scenario(world: ScriptedWorld) -> None:
        world.controllers[0].reactions = [ControllerMoved("perhaps"), StaleBrokerEpoch("no")]
        with pytest.raises(ControllerMoved, match="an earlier attempt may have been carried out"):
            await _call(world)

    run_scripted(scenario)


@pytest.mark.parametrize("unknown", [ControllerMoved("perhaps"), Unavailable("the answer is lost"), None])
def test_what_may_have_been_done_is_not_repeated_where_each_attempt_must_be_known(
    unknown: ControllerMoved | Unavailable | None,
) -> None:
    async def scenario(world: ScriptedWorld) -> None:
        [controller] = world.controllers
        controller.reactions = [NoController("surely not done"), unknown, _ANSWER]
        with pytest.raises((ControllerMoved, Unavailable, RequestTimedOut)):
            await _call(world, is_repeatable=False)
        assert len(controller.calls) == 2

    run_scripted(scenario)


def test_a_dead_controller_that_comes_back_is_reached_without_delay() -> None:
    async def scenario(world: ScriptedWorld) -> None:
        [controller] = world.controllers
        controller.reactions = [_ANSWER]
        await _call(world)
        controller.kill()
        with pytest.raises(Unavailable):
            await _call(world, timeout_s=1.0)
        await controller.start()
        began_at = world.now
        assert await _call(world) == _ANSWER
        assert world.now - began_at < 0.05

    run_scripted(scenario)
