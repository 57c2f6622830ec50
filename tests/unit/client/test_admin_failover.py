"""A program that administers outlives nodes: it learns of others, and goes on while its call has time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import pytest

from quorate.chaos.sim.clock import Simulation, run_simulation
from quorate.client.admin import AsyncAdmin
from quorate.errors import NoController, RequestTimedOut, Unavailable
from quorate.v1 import admin_pb2, broker_pb2
from tests.unit.client.scripted_nodes import ScriptedTransport, dead, describes, first, leaderless, silent

T = TypeVar("T")


class Nodes(ScriptedTransport):
    """Every one that answers names the brokers of the cluster."""

    def __init__(self, brokers: str, **behaviour: Any) -> None:
        super().__init__(**{name: self._learnable(each) for name, each in behaviour.items()})
        self._brokers = brokers

    def _learnable(self, behaviour: Any) -> Any:
        def answer(request: Any) -> Any:
            if not isinstance(request, broker_pb2.GetMetadataRequest):
                return behaviour(request)
            if behaviour in (dead, silent):
                return behaviour(request)
            response = broker_pb2.GetMetadataResponse(cluster_id="c", metadata_offset=1)
            for number, name in enumerate(self._brokers):
                response.brokers.add(broker_id=number, address=f"{name}:1")
            return response

        return answer

    def die(self, name: str) -> None:
        self.behaviour[f"{name}:1"] = dead

    @property
    def administered(self) -> str:
        return "".join(address[0] for address, method in self.asked if method != "GetMetadata")


def on(
    nodes: Nodes, bootstrap: str, work: Callable[[AsyncAdmin, Simulation], Awaitable[T]], *, seed: int = 1
) -> T:
    async def scenario(simulation: Simulation) -> T:
        admin = AsyncAdmin(bootstrap, transport=nodes, clock=simulation.clock, rng=simulation.rng)
        async with admin:
            return await work(admin, simulation)

    return run_simulation(scenario, seed=seed)


async def describe(admin: AsyncAdmin, _simulation: Simulation) -> int | None:
    return (await admin.describe_cluster()).controller


def test_brokers_that_were_learned_answer_when_the_bootstrap_node_is_dead() -> None:
    nodes = Nodes("abc", a=describes, b=dead, c=describes)

    async def scenario(admin: AsyncAdmin, simulation: Simulation) -> None:
        assert await describe(admin, simulation) == 7
        await simulation.clock.sleep(1)
        nodes.die("a")
        assert await describe(admin, simulation) == 7
        assert await describe(admin, simulation) == 7

    on(nodes, "a:1", scenario)
    assert nodes.administered == "aabcc", "and the one that answered is asked first from then on"


def test_brokers_are_learned_while_the_first_call_is_under_way() -> None:
    nodes = Nodes("ab", a=first(1, silent, dead), b=describes)
    assert on(nodes, "a:1", describe) == 7


@pytest.mark.parametrize("trouble", [dead, leaderless])
def test_nobody_for_a_while_does_not_end_a_call_that_has_time_left(trouble: Any) -> None:
    nodes = Nodes("ab", a=first(5, trouble, describes), b=first(5, trouble, describes))
    assert on(nodes, "a:1,b:1", describe) == 7


@pytest.mark.parametrize("trouble", [dead, silent])
def test_nobody_until_the_end_is_told_when_the_time_is_up_and_not_before(trouble: Any) -> None:
    nodes = Nodes("ab", a=trouble, b=trouble)

    async def scenario(admin: AsyncAdmin, simulation: Simulation) -> float:
        began = simulation.clock.monotonic()
        with pytest.raises(Unavailable, match="at any of a:1, b:1"):
            await admin.describe_cluster()
        return simulation.clock.monotonic() - began

    assert 8.9 < on(nodes, "a:1,b:1", scenario) <= 10.01


def test_nodes_that_used_up_the_time_of_a_call_are_not_asked_first_in_the_next() -> None:
    nodes = Nodes("abc", a=silent, b=silent, c=describes)

    async def scenario(admin: AsyncAdmin, simulation: Simulation) -> int | None:
        with pytest.raises(RequestTimedOut):
            await describe(admin, simulation)
        return await describe(admin, simulation)

    assert on(nodes, "a:1,b:1,c:1", scenario) == 7
    assert nodes.administered == "abc"


def test_election_that_does_not_end_is_told_when_the_time_is_up() -> None:
    with pytest.raises(NoController):
        on(Nodes("a", a=leaderless), "a:1", describe)


def test_pauses_grow_and_have_the_jitter_of_the_rng_that_was_given() -> None:
    def asked_at(seed: int) -> list[float]:
        times: list[float] = []

        async def scenario(admin: AsyncAdmin, simulation: Simulation) -> None:
            def notes(_request: Any) -> Any:
                times.append(simulation.clock.monotonic())
                return NoController("nobody leads")

            nodes.behaviour["a:1"] = notes
            with pytest.raises(NoController):
                await admin.describe_cluster()

        nodes = Nodes("a", a=leaderless)
        on(nodes, "a:1", scenario, seed=seed)
        return times

    times = asked_at(1)
    assert times == asked_at(1)
    assert times != asked_at(2)
    assert 10 < len(times) < 40


def test_topic_that_is_created_has_one_id_whoever_is_asked() -> None:
    created: list[str] = []

    def creates(request: Any) -> Any:
        created.append(request.topic_id)
        return admin_pb2.CreateTopicResponse(topic=admin_pb2.TopicDescription(topic_id=request.topic_id))

    def dies_with_the_answer(request: Any) -> Any:
        created.append(request.topic_id)
        return Unavailable("died")

    async def scenario(admin: AsyncAdmin, _simulation: Simulation) -> str:
        return (await admin.create_topic("t")).topic_id

    assert on(Nodes("ab", a=dies_with_the_answer, b=creates), "a:1,b:1", scenario) in created
    assert len(created) == 2
    assert len(set(created)) == 1
