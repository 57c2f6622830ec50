"""Which calls are made again, where, and for how long. On simulated time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import pytest

from quorate.chaos.sim.clock import Simulation, run_simulation
from quorate.client.impatient_admin import ImpatientAdmin
from quorate.errors import (
    ControllerMoved,
    InvalidTopic,
    InvalidUpdateVersion,
    NoController,
    QuorateError,
    RecoveryRefused,
    Unavailable,
    UnknownTopicOrPartition,
    VoterChangeRefused,
)
from quorate.v1 import admin_pb2
from tests.unit.client.scripted_nodes import (
    Behaviour,
    ScriptedTransport,
    dead,
    describes,
    first,
    leaderless,
    led_by_another,
    silent,
)

T = TypeVar("T")


def on(transport: ScriptedTransport, work: Callable[[ImpatientAdmin], Awaitable[T]]) -> T:
    async def scenario(simulation: Simulation) -> T:
        connection = ImpatientAdmin(
            transport, list(transport.behaviour), clock=simulation.clock, rng=simulation.rng
        )
        async with connection:
            return await work(connection)

    return run_simulation(scenario, seed=1)


async def describe(connection: ImpatientAdmin) -> int:
    return (await connection.describe_cluster()).controller


@pytest.mark.parametrize("trouble", [dead, silent, leaderless])
def test_next_address_is_asked_when_the_first_is_no_help(trouble: Behaviour) -> None:
    transport = ScriptedTransport(a=trouble, b=describes)
    assert on(transport, describe) == 7
    assert transport.addresses_asked == "ab"


def test_address_that_answered_is_asked_first_from_then_on() -> None:
    transport = ScriptedTransport(a=dead, b=describes)

    async def twice(connection: ImpatientAdmin) -> None:
        await describe(connection)
        await describe(connection)

    on(transport, twice)
    assert transport.addresses_asked == "abb"
    assert transport.closed == ["a:1", "b:1"]


def test_nobody_at_any_address_is_told_after_one_round() -> None:
    transport = ScriptedTransport(a=dead, b=silent, c=dead)
    with pytest.raises(Unavailable, match="at any of a:1, b:1, c:1"):
        on(transport, describe)
    assert transport.addresses_asked == "abc"


def test_nobody_at_the_only_address_is_told_at_once() -> None:
    transport = ScriptedTransport(a=dead)
    with pytest.raises(Unavailable, match="refused"):
        on(transport, describe)
    assert transport.addresses_asked == "a"


def test_election_is_waited_for_at_a_single_address_too() -> None:
    transport = ScriptedTransport(a=first(5, leaderless, describes))
    assert on(transport, describe) == 7


def test_election_that_does_not_end_is_told_when_the_time_is_up() -> None:
    transport = ScriptedTransport(a=leaderless, b=leaderless)
    with pytest.raises(NoController):
        on(transport, describe)


def test_refusal_is_an_answer_and_not_asked_for_again() -> None:
    transport = ScriptedTransport(a=lambda _: InvalidTopic("bad"), b=describes)
    with pytest.raises(InvalidTopic):
        on(transport, describe)
    assert transport.addresses_asked == "a"


def test_change_that_may_have_been_made_is_never_said_to_be_undone() -> None:
    """One node dies with the answer; all the others can say is that they did nothing."""
    transport = ScriptedTransport(a=first(1, dead, leaderless), b=leaderless)
    with pytest.raises(ControllerMoved, match="nobody leads"):
        on(transport, lambda connection: connection.delete_topic("id"))


def test_refusal_after_an_attempt_without_an_answer_is_not_the_word_on_that_one() -> None:
    """It may be the very reason: the partition is recovered, the topic gone, the setting changed."""
    refuses: Behaviour = lambda _: RecoveryRefused("there was another election")  # noqa: E731
    request = admin_pb2.RecoverPartitionRequest(leader_epoch=1)
    request.partition.topic_id = "id"

    def told(*nodes: Behaviour) -> QuorateError:
        transport = ScriptedTransport(**dict(zip("ab", nodes, strict=False)))
        with pytest.raises(QuorateError) as caught:
            on(transport, lambda connection: connection.recover_partition(request))
        return caught.value

    lost = told(dead, refuses)
    assert isinstance(lost, ControllerMoved)
    assert "an earlier attempt may have been carried out; asked again, the answer is RECOVERY_REFUSED" in str(
        lost
    )
    assert isinstance(told(refuses), RecoveryRefused)
    assert isinstance(told(leaderless, refuses), RecoveryRefused), "the first has said that it did nothing"


def test_refusal_of_a_question_is_what_it_is_whatever_came_before() -> None:
    transport = ScriptedTransport(a=dead, b=lambda _: InvalidTopic("bad"))
    with pytest.raises(InvalidTopic):
        on(transport, describe)


class _Settings:
    """Of a topic; ``faster``: how often somebody changes them between a look and a change."""

    def __init__(self, *, faster: int) -> None:
        self.epoch = 5
        self._faster = faster

    def __call__(self, request: Any) -> Any:
        if not request.changes:
            seen = self.epoch
            if self._faster:
                self._faster -= 1
                self.epoch += 1
            return admin_pb2.AlterConfigsResponse(topic_id="id", config_epoch=seen)
        assert request.topic_id == "id"
        if request.config_epoch != self.epoch:
            return InvalidUpdateVersion("they have changed")
        self.epoch += 1
        entry = admin_pb2.ConfigEntry(name="a", value=request.changes[0].value)
        return admin_pb2.AlterConfigsResponse(configs=[entry])


def _alteration(**more: Any) -> admin_pb2.AlterConfigsRequest:
    change = admin_pb2.ConfigChange(name="a", value="1")
    return admin_pb2.AlterConfigsRequest(topic="t", changes=[change], **more)


@pytest.mark.parametrize("faster", [0, 1, 4])
def test_settings_that_somebody_else_has_changed_meanwhile_are_looked_at_again(faster: int) -> None:
    transport = ScriptedTransport(a=_Settings(faster=faster))
    [entry] = on(transport, lambda connection: connection.alter_configs(_alteration()))
    assert entry.value == "1"
    assert len(transport.requests) == 2 * (faster + 1)


def test_settings_that_change_all_the_time_are_given_up() -> None:
    transport = ScriptedTransport(a=_Settings(faster=100))
    with pytest.raises(InvalidUpdateVersion):
        on(transport, lambda connection: connection.alter_configs(_alteration()))


def test_change_of_settings_that_somebody_has_looked_at_himself_is_not_based_on_others() -> None:
    transport = ScriptedTransport(a=_Settings(faster=0))
    request = _alteration(topic_id="id", config_epoch=4)
    with pytest.raises(InvalidUpdateVersion):
        on(transport, lambda connection: connection.alter_configs(request))
    assert len(transport.requests) == 1


def test_change_of_settings_that_may_have_been_made_is_not_made_anew() -> None:
    """The second look would see what the first attempt has done, and take it for somebody else's."""
    settings = _Settings(faster=0)
    lost: list[int] = []

    def loses_the_first_answer(request: Any) -> Any:
        answer = settings(request)
        if request.changes and not lost:
            lost.append(settings.epoch)
            return Unavailable("died with the answer")
        return answer

    transport = ScriptedTransport(a=loses_the_first_answer, b=settings)
    with pytest.raises(ControllerMoved, match="INVALID_UPDATE_VERSION"):
        on(transport, lambda connection: connection.alter_configs(_alteration()))
    assert lost == [settings.epoch], "no other attempt was carried out"


def test_recovery_is_of_the_incident_that_is_there_when_it_is_asked_for() -> None:
    described = admin_pb2.TopicDescription(name="t", topic_id="id")
    described.partitions.add(partition=0, leader_epoch=3)
    described.partitions.add(partition=1, leader_epoch=8)

    def answers(request: Any) -> Any:
        if isinstance(request, admin_pb2.DescribeTopicRequest):
            return admin_pb2.DescribeTopicResponse(topic=described)
        return admin_pb2.RecoverPartitionResponse(leader=1)

    def request(number: int) -> admin_pb2.RecoverPartitionRequest:
        return admin_pb2.RecoverPartitionRequest(
            partition=admin_pb2.PartitionName(topic="t", partition=number), accept_missing_replicas=True
        )

    transport = ScriptedTransport(a=answers)
    on(transport, lambda connection: connection.recover_partition(request(1)))
    sent = transport.requests[-1]
    assert (sent.partition.topic_id, sent.partition.partition, sent.leader_epoch) == ("id", 1, 8)
    assert sent.accept_missing_replicas
    with pytest.raises(UnknownTopicOrPartition, match="partitions 0 to 1, not 2"):
        on(transport, lambda connection: connection.recover_partition(request(2)))


@pytest.mark.parametrize("trouble", [dead, silent])
def test_question_that_nobody_can_decide_is_never_said_to_be_done_perhaps(trouble: Behaviour) -> None:
    transport = ScriptedTransport(a=trouble, b=leaderless, c=trouble)
    with pytest.raises(NoController, match="nobody leads"):
        on(transport, describe)


def test_question_to_a_controller_that_is_deposed_meanwhile_was_decided_by_none() -> None:
    transport = ScriptedTransport(a=lambda _: ControllerMoved("it may have been carried out"))
    with pytest.raises(NoController):
        on(transport, describe)
    with pytest.raises(ControllerMoved):
        on(transport, lambda connection: connection.delete_topic("id"))


@pytest.mark.parametrize("answer", [leaderless, led_by_another])
def test_without_a_controller_it_is_told_what_each_address_answers(answer: Behaviour) -> None:
    transport = ScriptedTransport(a=dead, b=answer)
    with pytest.raises(NoController, match="a:1 does not answer") as told:
        on(transport, describe)
    assert f"b:1 answers {answer(None).code}: " in told.value.message


def test_topic_is_described_within_the_time_that_is_given() -> None:
    transport = ScriptedTransport(a=leaderless)

    async def scenario(connection: ImpatientAdmin) -> float:
        loop = asyncio.get_running_loop()
        began = loop.time()
        with pytest.raises(NoController):
            await connection.describe_topic("t", timeout_s=3.0)
        return loop.time() - began

    assert on(transport, scenario) <= 3.0


def test_topic_has_the_same_id_in_every_attempt() -> None:
    def creates(request: Any) -> Any:
        return admin_pb2.CreateTopicResponse(topic=admin_pb2.TopicDescription(topic_id=request.topic_id))

    transport = ScriptedTransport(a=dead, b=leaderless, c=creates)
    request = admin_pb2.CreateTopicRequest(name="t", configs={"retention.ms": "1"})
    created = on(transport, lambda connection: connection.create_topic(request))
    assert {each.topic_id for each in transport.requests} == {created.topic_id}
    assert len(created.topic_id) == 22
    assert all((each.name, dict(each.configs)) == ("t", {"retention.ms": "1"}) for each in transport.requests)


def quorum(*followers: tuple[int, int, str]) -> admin_pb2.DescribeQuorumResponse:
    voters = [
        admin_pb2.VoterDescription(node_id=node_id, match_index=match_index, state=state)
        for node_id, match_index, state in followers
    ]
    return admin_pb2.DescribeQuorumResponse(leader=1, voters=voters)


def test_transfer_to_nobody_in_particular_names_the_follower_that_is_furthest() -> None:
    """Or a request that is sent twice would move leadership twice."""

    def answers(request: Any) -> Any:
        if isinstance(request, admin_pb2.DescribeQuorumRequest):
            return quorum((1, 9, "leader"), (2, 7, "follower"), (3, 8, "follower"), (4, 9, "unreachable"))
        return admin_pb2.TransferControllerResponse(controller=request.node_id)

    transport = ScriptedTransport(a=answers)
    assert on(transport, lambda connection: connection.transfer_controller()) == 3


def test_transfer_is_refused_where_nobody_could_take_over() -> None:
    transport = ScriptedTransport(a=lambda _: quorum((1, 9, "leader"), (2, 9, "recovering")))
    with pytest.raises(VoterChangeRefused):
        on(transport, lambda connection: connection.transfer_controller())
