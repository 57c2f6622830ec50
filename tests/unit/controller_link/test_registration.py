"""How a broker's process introduces itself."""

from __future__ import annotations

import pytest

from quorate.errors import InvalidRequest, NoController, UnsupportedFeatureLevel
from quorate.metadata.records import FEATURE_LEVEL_MAX, FEATURE_LEVEL_MIN
from quorate.v1.controller_pb2 import RegisterBrokerResponse
from tests.unit.controller_link.link_rules import (
    FakeDirectory,
    every_attempt_names_the_same_incarnation,
    registration,
)
from tests.unit.controller_link.scripted_controllers import ScriptedWorld, run_scripted

_GRANTED = RegisterBrokerResponse(broker_epoch=9, cluster_id="cluster")


def test_every_attempt_names_the_same_incarnation() -> None:
    run_scripted(every_attempt_names_the_same_incarnation)


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
