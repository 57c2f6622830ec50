"""How a broker's process introduces itself."""

from __future__ import annotations

import pytest

from quorate.broker.directory.run_notes import NO_BROKER_EPOCH
from quorate.core.ids import BrokerEpoch
from quorate.errors import InvalidRequest, NoController, UnexpectedBrokerEpoch, UnsupportedFeatureLevel
from quorate.metadata.records import FEATURE_LEVEL_MAX, FEATURE_LEVEL_MIN
from quorate.v1.controller_pb2 import PreviousRun, RegisterBrokerResponse
from tests.unit.controller_link.link_rules import (
    FakeDirectory,
    a_refused_attempt_is_followed_by_one_that_expects_what_stands,
    every_attempt_names_the_same_incarnation,
    registration,
)
from tests.unit.controller_link.scripted_controllers import ScriptedWorld, run_scripted

_GRANTED = RegisterBrokerResponse(broker_epoch=9, cluster_id="cluster")


def test_every_attempt_names_the_same_incarnation() -> None:
    run_scripted(every_attempt_names_the_same_incarnation)


def test_a_refused_attempt_is_followed_by_one_that_expects_what_stands() -> None:
    run_scripted(a_refused_attempt_is_followed_by_one_that_expects_what_stands)


def test_the_next_attempt_follows_a_refusal_at_once_and_a_refusal_that_says_nothing_new_after_a_pause() -> (
    None
):
    async def scenario(world: ScriptedWorld) -> None:
        stands = UnexpectedBrokerEpoch("another one", current_broker_epoch=8)
        world.controllers[0].reactions = [stands, _GRANTED]
        await registration(world, FakeDirectory()).register()
        assert world.now < 0.01
        # A refusal that only repeats what was named, and one that does not say.
        for refusal in (stands, UnexpectedBrokerEpoch("another one")):
            began_at = world.now
            world.controllers[0].reactions = [stands, refusal, _GRANTED]
            await registration(world, FakeDirectory()).register()
            assert world.now - began_at > 0.1

    run_scripted(scenario)


@pytest.mark.parametrize("noted_epoch", [NO_BROKER_EPOCH, None])
def test_whoever_has_noted_no_epoch_expects_to_be_the_first(noted_epoch: BrokerEpoch | None) -> None:
    """Without a history, and after processes that never noted one."""

    class New(FakeDirectory):
        def previous_run(self) -> PreviousRun | None:
            return None if noted_epoch is None else PreviousRun(broker_epoch=noted_epoch)

    async def scenario(world: ScriptedWorld) -> None:
        world.controllers[0].reactions = [_GRANTED]
        await registration(world, New()).register()
        [(_, request)] = world.controllers[0].calls
        assert request.expected_broker_epoch == 0

    run_scripted(scenario)


def test_two_processes_are_two_incarnations() -> None:
    async def scenario(world: ScriptedWorld) -> None:
        world.controllers[0].reactions = [_GRANTED]
        for _ in range(2):
            await registration(world, FakeDirectory()).register()
        first, second = (request.incarnation_id for _, request in world.controllers[0].calls)
        assert first != second

    run_scripted(scenario)


def test_a_registration_says_all_that_the_start_is_judged_by() -> None:
    """Rule 30."""

    async def scenario(world: ScriptedWorld) -> None:
        world.controllers[0].reactions = [_GRANTED]
        directory = FakeDirectory()
        directory.cluster_id = "cluster"
        await registration(world, directory).register()
        [(_, request)] = world.controllers[0].calls
        assert (request.broker_id, request.address, request.rack) == (7, "b7:9092", "north")
        assert (request.directory_id, request.cluster_id) == ("directory", "cluster")
        assert request.previous_run == directory.previous_run()
        assert list(request.damaged) == directory.damaged()
        assert request.feature_level_min == FEATURE_LEVEL_MIN
        assert request.feature_level_max == FEATURE_LEVEL_MAX

    run_scripted(scenario)


def test_the_incarnation_is_noted_even_where_the_answer_never_comes() -> None:
    async def scenario(world: ScriptedWorld) -> None:
        world.controllers[0].reactions = [UnsupportedFeatureLevel("too old")]
        directory = FakeDirectory()
        with pytest.raises(UnsupportedFeatureLevel):
            await registration(world, directory).register()
        assert [kind for kind, *_ in directory.notes] == ["incarnation"]

    run_scripted(scenario)


def test_a_registration_waits_for_a_quorum_however_long_that_takes() -> None:
    async def scenario(world: ScriptedWorld) -> None:
        controller = world.controllers[0]
        controller.reactions = [*[NoController("an election") for _ in range(500)], _GRANTED]
        await registration(world, FakeDirectory()).register()
        assert world.now > 60

    run_scripted(scenario)


def test_the_directory_of_another_cluster_is_refused_for_good() -> None:
    async def scenario(world: ScriptedWorld) -> None:
        world.controllers[0].reactions = [InvalidRequest("it belongs to another cluster")]
        with pytest.raises(InvalidRequest):
            await registration(world, FakeDirectory()).register()

    run_scripted(scenario)
