"""Heartbeats, what their answers mean, and what survives the end of a stream."""

from __future__ import annotations

import asyncio

import pytest

from quorate.errors import InvalidRequest, NotController, StaleBrokerEpoch, UnknownServerError
from quorate.rpc.error_detail import detail_from_error
from quorate.v1.controller_pb2 import BrokerSessionRequest, BrokerSessionResponse
from tests.unit.controller_link.link_rules import (
    a_broken_stream_ends_the_lease_at_once,
    a_fenced_answer_gives_no_lease,
    an_answer_gives_no_lease_before_the_metadata_that_it_names_is_here,
    damage_is_reported_again_after_a_broken_stream,
    damage_that_is_reported_again_names_the_epoch_in_which_it_was_found,
    damage_that_was_repaired_meanwhile_is_not_reported_again,
    the_lease_runs_from_when_the_heartbeat_was_sent,
)
from tests.unit.controller_link.scripted_controllers import (
    DEVICE_WITNESS,
    EPOCH,
    INTERVAL_S,
    LEASE_S,
    WITNESS_BEFORE,
    ScriptedWorld,
    fenced,
    partitions_of,
    replica,
    run_scripted,
    silent,
    unfenced,
)


def test_the_lease_runs_from_when_the_heartbeat_was_sent() -> None:
    run_scripted(the_lease_runs_from_when_the_heartbeat_was_sent)


def test_a_fenced_answer_gives_no_lease_and_takes_one_away() -> None:
    run_scripted(a_fenced_answer_gives_no_lease)


def test_a_broken_stream_ends_the_lease_at_once() -> None:
    run_scripted(a_broken_stream_ends_the_lease_at_once)


def test_an_answer_gives_no_lease_before_the_metadata_that_it_names_is_here() -> None:
    run_scripted(an_answer_gives_no_lease_before_the_metadata_that_it_names_is_here)


def test_damage_is_reported_again_after_a_broken_stream() -> None:
    run_scripted(damage_is_reported_again_after_a_broken_stream)


def test_damage_that_was_repaired_meanwhile_is_not_reported_again() -> None:
    run_scripted(damage_that_was_repaired_meanwhile_is_not_reported_again)


def test_damage_that_is_reported_again_names_the_epoch_in_which_it_was_found() -> None:
    run_scripted(damage_that_is_reported_again_names_the_epoch_in_which_it_was_found)


def test_damage_is_reported_at_once_and_once_unless_it_happens_again() -> None:
    async def scenario(world: ScriptedWorld) -> None:
        [controller] = world.controllers
        world.run_session()
        await world.until(lambda: world.lease.is_valid)
        world.session.report_damaged(replica(2), EPOCH)
        world.session.report_damaged(replica(1), EPOCH)
        await world.clock.sleep(0.01)
        assert partitions_of(controller.heartbeats)[-1] == [1, 2]
        await world.clock.sleep(3 * INTERVAL_S)
        world.session.report_damaged(replica(1), EPOCH)
        await world.clock.sleep(3 * INTERVAL_S)
        assert [each for each in partitions_of(controller.heartbeats) if each] == [[1, 2], [1]]

    run_scripted(scenario)


def test_damage_found_while_a_report_is_under_way_is_reported_too() -> None:
    """The answer to the first speaks for what was known when it was sent."""

    async def scenario(world: ScriptedWorld) -> None:
        [controller] = world.controllers
        world.session.report_damaged(replica(1), EPOCH)
        world.run_session()
        await world.until(lambda: bool(controller.heartbeats))
        world.session.report_damaged(replica(1), EPOCH)
        await world.clock.sleep(3 * INTERVAL_S)
        assert [each for each in partitions_of(controller.heartbeats) if each] == [[1], [1]]

    run_scripted(scenario)


def test_every_heartbeat_carries_the_numbers_of_both_witnesses() -> None:
    async def scenario(world: ScriptedWorld) -> None:
        [controller] = world.controllers
        world.run_session()
        await world.clock.sleep(3 * INTERVAL_S + 0.01)
        written = [heartbeat.cache_witness for heartbeat in controller.heartbeats]
        assert written == list(range(WITNESS_BEFORE + 1, WITNESS_BEFORE + 1 + len(written)))
        assert {heartbeat.device_witness for heartbeat in controller.heartbeats} == {DEVICE_WITNESS}

    run_scripted(scenario)


def test_one_heartbeat_is_under_way_at_a_time_and_the_next_comes_after_the_interval() -> None:
    async def scenario(world: ScriptedWorld) -> None:
        [controller] = world.controllers
        world.run_session()
        await world.clock.sleep(10 * INTERVAL_S + 0.01)
        assert len(controller.heartbeats) == 11
        assert [each.sequence for each in controller.heartbeats] == list(range(1, 12))
        controller.answer = silent
        await world.clock.sleep(INTERVAL_S)
        heard = len(controller.heartbeats)
        world.session.want_unfence()
        await world.clock.sleep(4 * INTERVAL_S)
        assert len(controller.heartbeats) == heard

    run_scripted(scenario)


def test_a_controller_that_falls_silent_is_left_for_the_next() -> None:
    async def scenario(world: ScriptedWorld) -> None:
        first, second = world.controllers
        first.answer = silent
        link = world.link_to([first.address, second.address])
        link.failed(second.address, NotController("no", controller_address=first.address))
        world.run_session(world.session_over(link))
        await world.until(lambda: bool(second.heartbeats), within_s=LEASE_S + 2 * INTERVAL_S)
        await world.until(lambda: world.lease.is_valid)

    run_scripted(scenario, controllers=2)


def test_the_controller_that_another_one_names_gets_the_session_at_once() -> None:
    async def scenario(world: ScriptedWorld) -> None:
        first, second = world.controllers
        first.refusal = NotController("no", controller_address=second.address)
        world.run_session()
        await world.until(lambda: world.lease.is_valid, within_s=0.05)
        assert first.streams == 1

    run_scripted(scenario, controllers=2)


def test_controllers_that_name_each_other_are_not_asked_in_a_frenzy() -> None:
    async def scenario(world: ScriptedWorld) -> None:
        first, second = world.controllers
        first.refusal = NotController("no", controller_address=second.address)
        second.refusal = NotController("no", controller_address=first.address)
        world.run_session()
        await world.clock.sleep(10.0)
        assert first.streams + second.streams < 50

    run_scripted(scenario, controllers=2)


def test_a_stale_epoch_ends_the_session_with_an_error() -> None:
    async def scenario(world: ScriptedWorld) -> None:
        [controller] = world.controllers
        running = world.run_session()
        await world.until(lambda: world.lease.is_valid)
        leaving = asyncio.create_task(world.session.shut_down(30.0))
        await asyncio.sleep(0)
        error = detail_from_error(StaleBrokerEpoch("another process has registered"))
        controller.answer = lambda request: BrokerSessionResponse(sequence=request.sequence, error=error)
        with pytest.raises(StaleBrokerEpoch):
            await running
        assert not world.lease.is_valid
        # Nobody waits for leave that can never come.
        assert not await leaving
        assert not await world.session.shut_down(30.0)
        assert world.now < 1

    run_scripted(scenario)


@pytest.mark.parametrize("error", [UnknownServerError("a bug"), NotController("no")])
def test_a_controller_that_fails_does_not_end_the_broker(error: UnknownServerError | NotController) -> None:
    async def scenario(world: ScriptedWorld) -> None:
        [controller] = world.controllers
        controller.refusal = error
        running = world.run_session()
        await world.clock.sleep(5.0)
        assert not running.done()
        controller.refusal = None
        await world.until(lambda: world.lease.is_valid, within_s=1.0)

    run_scripted(scenario)


def test_a_request_that_can_never_succeed_ends_the_session() -> None:
    async def scenario(world: ScriptedWorld) -> None:
        world.controllers[0].refusal = InvalidRequest("that is no heartbeat")
        with pytest.raises(InvalidRequest):
            await world.run_session()

    run_scripted(scenario)


def test_a_broker_asks_to_be_unfenced_and_learns_when_it_is() -> None:
    async def scenario(world: ScriptedWorld) -> None:
        [controller] = world.controllers
        controller.answer = lambda request: (unfenced if request.wants_unfence else fenced)(request)
        world.run_session()
        unfencing = asyncio.create_task(world.session.unfenced())
        await world.until(lambda: len(controller.heartbeats) == 3)
        assert not unfencing.done()
        asked_at = world.now
        world.session.want_unfence()
        await unfencing
        assert world.now - asked_at < 0.01
        assert controller.heartbeats[-1].metadata_offset == 70

    run_scripted(scenario)


def test_a_stop_is_granted_when_the_controller_says_so() -> None:
    async def scenario(world: ScriptedWorld) -> None:
        [controller] = world.controllers

        def answer(request: BrokerSessionRequest) -> BrokerSessionResponse:
            response = unfenced(request)
            asked = sum(each.wants_shutdown for each in controller.heartbeats)
            response.may_shut_down = response.is_fenced = asked >= 3
            return response

        controller.answer = answer
        world.run_session()
        await world.until(lambda: world.lease.is_valid)
        assert await world.session.shut_down(30.0)
        # It served until it was let go, and not a moment longer.
        assert not world.lease.is_valid
        assert world.now < 3 * INTERVAL_S

    run_scripted(scenario)


def test_without_a_quorum_a_stop_ends_after_its_time() -> None:
    """Rule 36."""

    async def scenario(world: ScriptedWorld) -> None:
        [controller] = world.controllers
        world.run_session()
        await world.until(lambda: world.lease.is_valid)
        controller.kill()
        began_at = world.now
        assert not await world.session.shut_down(30.0)
        assert world.now - began_at == pytest.approx(30.0)

    run_scripted(scenario)
