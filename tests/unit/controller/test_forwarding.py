"""Administration passed on to the active controller, and what a second attempt may do."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import pytest

from quorate.chaos.sim.clock import Simulation, run_simulation
from quorate.chaos.sim.network import SimNetwork
from quorate.chaos.sim.transport import SimTransport
from quorate.controller.forwarding import AdministeringNode
from quorate.core.transport import methods_of
from quorate.errors import (
    ControllerError,
    ControllerMoved,
    InvalidRequest,
    NoController,
    NotController,
    QuorateError,
    Unavailable,
    UnknownTopicOrPartition,
)
from quorate.metadata.admin_forwarding import AdminForwarding
from quorate.metadata.leader_descriptions import LeaderDescriptions
from quorate.v1 import admin_pb2

T = TypeVar("T")

_METHODS = methods_of(admin_pb2.DESCRIPTOR.services_by_name["AdminService"])


class _Call:
    peer = "test"

    def remaining_s(self) -> float:
        return math.inf

    def when_over(self, callback: Callable[[], None]) -> None:
        pass


class _World:
    """``answers``: what the controller does with each attempt, in turn: an error, or a response."""

    def __init__(self, simulation: Simulation, *answers: Any) -> None:
        self.attempts: list[tuple[str, Any]] = []
        self._answers = list(answers)
        network = SimNetwork(simulation.loop, simulation.rng)
        transport = SimTransport(network, "c1")
        node = AdministeringNode(
            transport,
            simulation.clock,
            controller_address=lambda: "c1:1",
            administer_here=self._administer,
            own_address="c1:1",
        )
        self.forwarding = AdminForwarding(
            node.administer,
            LeaderDescriptions(transport, dict),
            clock=simulation.clock,
            random_bytes=simulation.rng.randbytes,
        )

    async def _administer(self, method: str, content: bytes) -> bytes:
        self.attempts.append((method, _METHODS[method].request_type.FromString(content)))
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if answer is None:
            await asyncio.Event().wait()
        if isinstance(answer, Exception):
            raise answer
        return bytes(answer.SerializeToString())

    async def ask(self, method: str, request: Any) -> Any:
        handler: Any = self.forwarding.service().handlers[_METHODS[method]]
        return await handler(request, _Call())


def simulate(scenario: Callable[[Simulation], Awaitable[T]]) -> T:
    return run_simulation(scenario, seed=1, time_limit_s=600)


@pytest.mark.parametrize(
    ("method", "request_"),
    [
        ("DeleteTopic", admin_pb2.DeleteTopicRequest(name="orders")),
        ("AlterConfigs", admin_pb2.AlterConfigsRequest(topic="orders")),
        ("RecoverPartition", admin_pb2.RecoverPartitionRequest()),
    ],
)
def test_what_a_change_is_based_on_is_not_filled_in_here(method: str, request_: Any) -> None:
    """Rule 43: a late copy of what the client has sent would get it as well, and mean the next topic."""

    async def scenario(simulation: Simulation) -> None:
        world = _World(simulation, InvalidRequest("what is it based on?"))
        with pytest.raises(InvalidRequest):
            await world.ask(method, request_)
        assert world.attempts == [(method, request_)]

    simulate(scenario)


def test_a_repeated_creation_carries_the_same_topic_id() -> None:
    async def scenario(simulation: Simulation) -> None:
        world = _World(simulation, ControllerMoved("deposed"), admin_pb2.CreateTopicResponse())
        await world.ask("CreateTopic", admin_pb2.CreateTopicRequest(name="orders"))
        [first, second] = [request.topic_id for _, request in world.attempts]
        assert first == second != ""

    simulate(scenario)


def test_a_refusal_after_an_attempt_of_unknown_outcome_does_not_claim_that_nothing_was_done() -> None:
    async def scenario(simulation: Simulation) -> None:
        world = _World(simulation, Unavailable("lost"), UnknownTopicOrPartition("there is no topic"))
        with pytest.raises(ControllerMoved, match="an earlier attempt may have been carried out"):
            await world.ask("DeleteTopic", admin_pb2.DeleteTopicRequest(topic_id="gone"))

    simulate(scenario)


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (NotController("not me"), NoController),
        (ControllerMoved("deposed"), NoController),
        (UnknownTopicOrPartition("there is no topic"), UnknownTopicOrPartition),
    ],
)
@pytest.mark.parametrize("method", ["DescribeTopic", "ListTopics", "CheckBrokerRestart"])
def test_a_question_is_never_answered_as_if_it_had_been_carried_out(
    method: str, answer: QuorateError, told: type[QuorateError]
) -> None:
    async def scenario(simulation: Simulation) -> None:
        world = _World(simulation, Unavailable("the answer is lost"), answer)
        with pytest.raises(told) as caught:
            await world.ask(method, _METHODS[method].request_type())
        assert not caught.value.outcome_unknown

    simulate(scenario)


def test_a_change_that_nobody_acted_upon_still_says_that_an_earlier_attempt_may_have_been() -> None:
    async def scenario(simulation: Simulation) -> None:
        world = _World(simulation, Unavailable("lost"), NotController("not me"))
        with pytest.raises(ControllerMoved, match="an earlier attempt may have been carried out"):
            await world.ask("DeleteTopic", admin_pb2.DeleteTopicRequest(topic_id="gone"))

    simulate(scenario)


def test_a_refusal_at_the_first_attempt_is_what_it_is() -> None:
    async def scenario(simulation: Simulation) -> None:
        world = _World(simulation, NotController("moved"), UnknownTopicOrPartition("there is no topic"))
        with pytest.raises(UnknownTopicOrPartition):
            await world.ask("DeleteTopic", admin_pb2.DeleteTopicRequest(topic_id="gone"))

    simulate(scenario)


@pytest.mark.parametrize("answer", [NoController("nobody"), Unavailable("it is gone"), None])
@pytest.mark.parametrize(
    ("method", "request_", "told"),
    [
        ("ListTopics", admin_pb2.ListTopicsRequest(), NoController),
        ("CreateTopic", admin_pb2.CreateTopicRequest(name="orders"), ControllerError),
    ],
)
def test_a_call_ends_even_if_no_controller_ever_answers_and_says_that_it_is_about_controllers(
    method: str, request_: Any, told: type[QuorateError], answer: Any
) -> None:
    async def scenario(simulation: Simulation) -> None:
        world = _World(simulation, answer)
        with pytest.raises(told) as caught:
            await world.ask(method, request_)
        assert simulation.loop.time() <= 61
        may_be_done = method == "CreateTopic" and not isinstance(answer, NoController)
        assert caught.value.outcome_unknown == may_be_done

    simulate(scenario)
