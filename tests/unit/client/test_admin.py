"""Administration: requests that say what was meant, answers as values, leaders found for offsets."""

from __future__ import annotations

import inspect
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

import pytest

from quorate.chaos.sim.clock import Simulation, run_simulation
from quorate.chaos.sim.transport import SimTransport
from quorate.client.admin import Admin, AsyncAdmin, types
from quorate.core.ids import TopicPartition
from quorate.core.transport import Channel, Method, Server, Service
from quorate.errors import (
    ClientClosed,
    InvalidRequest,
    LogDamaged,
    NoController,
    NotEnoughReplicas,
    NotLeaderOrFollower,
    OffsetNotAvailable,
    QuorateError,
    Unavailable,
    UnknownTopicOrPartition,
)
from quorate.rpc.error_detail import detail_from_error
from quorate.v1 import admin_pb2
from tests.unit.client.fake_log_broker import TIMESTAMP, FakeCluster, simulate

T = TypeVar("T")


class ScriptedNode:
    """Answers each call with what the script has for its method, and keeps the requests."""

    address = "node:1"

    def __init__(self, **answers: Any) -> None:
        self.answers = answers
        self.requests: list[Any] = []

    def connect(self, address: str) -> Channel:
        return self

    async def call(self, method: Method[Any, Any], request: Any, *, timeout_s: float) -> Any:
        if method.name == "GetMetadata":
            raise Unavailable("there is nothing to learn here")
        self.requests.append(request)
        answer = self.answers[method.name]
        if isinstance(answer, deque):
            answer = answer.popleft()
        if isinstance(answer, QuorateError):
            raise answer
        return answer

    def stream(self, *_: Any, **__: Any) -> Any:
        raise AssertionError("nobody streams")

    async def close(self) -> None:
        pass

    async def serve(self, address: str, services: Sequence[Service], *, serving: bool = True) -> Server:
        raise AssertionError("nobody serves")

    async def is_refused(self, address: str, *, timeout_s: float) -> bool:
        raise AssertionError("nobody asks")


def ask(node: ScriptedNode, work: Callable[[AsyncAdmin], Awaitable[T]]) -> T:
    async def scenario(simulation: Simulation) -> T:
        admin = AsyncAdmin("node:1", transport=node, clock=simulation.clock, rng=simulation.rng)
        async with admin:
            return await work(admin)

    return run_simulation(scenario, seed=1)


def name(topic: str, partition: int) -> admin_pb2.PartitionName:
    return admin_pb2.PartitionName(topic=topic, partition=partition)


def topic_message() -> admin_pb2.TopicDescription:
    topic = admin_pb2.TopicDescription(name="t", topic_id="id", replication_factor=3)
    topic.configs.add(name="retention.ms", value="1000", source=admin_pb2.CONFIG_SOURCE_TOPIC)
    topic.partitions.add(
        partition=0, leader=1, leader_epoch=7, replicas=[1, 2, 3], isr=[1, 2], high_watermark=9
    )
    topic.partitions.add(
        partition=1, leader_epoch=2, replicas=[2], elr=[2], error=detail_from_error(LogDamaged("bad"))
    )
    return topic


def test_a_created_topic_is_described_and_has_an_id_before_it_is_sent() -> None:
    node = ScriptedNode(
        CreateTopic=deque([NoController("election"), admin_pb2.CreateTopicResponse(topic=topic_message())])
    )
    topic = ask(
        node,
        lambda admin: admin.create_topic(
            "t", partitions=2, configs={"retention.ms": "1000"}, assignments={1: [2], 0: [1, 2, 3]}
        ),
    )
    first, second = node.requests
    assert first == second, "sent again unchanged"
    assert len(first.topic_id) == 22
    assert (first.name, first.partition_count, first.HasField("replication_factor")) == ("t", 2, False)
    assert [(each.partition, list(each.replicas)) for each in first.assignments] == [(0, [1, 2, 3]), (1, [2])]
    assert topic.configs == {"retention.ms": types.ConfigEntry("retention.ms", "1000", "topic")}
    good, bad = topic.partitions
    assert (good.leader, good.isr, good.high_watermark, good.log_start_offset) == (1, (1, 2), 9, None)
    assert (bad.leader, bad.elr, good.error) == (None, (2,), None)
    assert isinstance(bad.error, LogDamaged)


def test_settings_may_be_given_as_numbers_and_bools() -> None:
    node = ScriptedNode(
        CreateTopic=admin_pb2.CreateTopicResponse(topic=topic_message()),
        AlterConfigs=admin_pb2.AlterConfigsResponse(),
    )
    given: Any = {"retention.ms": 5, "preallocate": True, "min.cleanable.dirty.ratio": 0.5}
    ask(node, lambda admin: admin.create_topic("t", configs=given))
    rendered = {"retention.ms": "5", "preallocate": "true", "min.cleanable.dirty.ratio": "0.5"}
    assert dict(node.requests[-1].configs) == rendered
    ask(node, lambda admin: admin.alter_config("t", given))
    assert {each.name: each.value for each in node.requests[-1].changes} == rendered


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"partitions": "6"}, r"^partitions is '6' \(str\): an int is expected"),
        ({"partitions": 1 << 40}, "^partitions is .* 32 bits"),
        ({"replication_factor": 1.5}, "^replication_factor is 1.5"),
        ({"configs": {"retention.ms": [5]}}, r"^retention.ms is \[5\]"),
        ({"configs": ["retention.ms"]}, "^configs is .*a mapping"),
        ({"name": None}, "^name is None"),
    ],
)
def test_what_no_topic_can_be_made_from_is_refused_by_its_name(arguments: Any, message: str) -> None:
    node = ScriptedNode()
    with pytest.raises(InvalidRequest, match=message):
        ask(node, lambda admin: admin.create_topic(**{"name": "t", **arguments}))
    assert not node.requests


def test_a_topic_is_deleted_by_its_id() -> None:
    node = ScriptedNode(
        DescribeTopic=admin_pb2.DescribeTopicResponse(topic=topic_message()),
        DeleteTopic=admin_pb2.DeleteTopicResponse(),
    )
    ask(node, lambda admin: admin.delete_topic("t"))
    assert node.requests[-1] == admin_pb2.DeleteTopicRequest(topic_id="id")
    node.requests.clear()
    ask(node, lambda admin: admin.delete_topic("t", topic_id="other"))
    assert node.requests == [admin_pb2.DeleteTopicRequest(topic_id="other")]


def test_a_config_is_set_or_put_back_to_its_default() -> None:
    entry = admin_pb2.ConfigEntry(name="a", value="1", source=admin_pb2.CONFIG_SOURCE_DEFAULT)
    node = ScriptedNode(AlterConfigs=admin_pb2.AlterConfigsResponse(configs=[entry], config_epoch=3))
    found = ask(node, lambda admin: admin.alter_config(None, {"a": None, "b": "2"}))
    assert found == {"a": types.ConfigEntry("a", "1", "default")}
    look, request = node.requests
    assert not look.changes
    assert request.topic == ""
    assert (request.HasField("config_epoch"), request.config_epoch) == (True, 3)
    assert [(each.name, each.HasField("value"), each.value) for each in request.changes] == [
        ("a", False, ""),
        ("b", True, "2"),
    ]


def test_a_config_whose_source_only_newer_brokers_know_is_told_all_the_same() -> None:
    newer: Any = 99
    entry = admin_pb2.ConfigEntry(name="a", value="1", source=newer)
    node = ScriptedNode(AlterConfigs=admin_pb2.AlterConfigsResponse(configs=[entry]))
    found = ask(node, lambda admin: admin.alter_config(None, {"a": "1"}))
    assert found == {"a": types.ConfigEntry("a", "1", "unknown")}


def test_recovery_of_an_incident_that_somebody_has_looked_at_names_that_one() -> None:
    node = ScriptedNode(RecoverPartition=admin_pb2.RecoverPartitionResponse(leader=2))
    ask(node, lambda admin: admin.recover_partition(("t", 0), topic_id="id", leader_epoch=7))
    [request] = node.requests
    assert (request.partition.topic_id, request.leader_epoch) == ("id", 7)
    with pytest.raises(InvalidRequest, match="name an incident together"):
        ask(node, lambda admin: admin.recover_partition(("t", 0), topic_id="id"))
    with pytest.raises(InvalidRequest, match="name an incident together"):
        ask(node, lambda admin: admin.recover_partition(("t", 0), leader_epoch=7))
    assert len(node.requests) == 1


def test_elections_tell_what_moved_and_what_did_not() -> None:
    answer = admin_pb2.ElectPreferredLeadersResponse(moved=[name("t", 0)])
    answer.refused.add(partition=name("t", 1), error=detail_from_error(NotEnoughReplicas("not in sync")))
    node = ScriptedNode(ElectPreferredLeaders=answer)
    result = ask(node, lambda admin: admin.elect_preferred_leaders())
    assert result.moved == (("t", 0),)
    assert isinstance(result.refused[TopicPartition("t", 1)], NotEnoughReplicas)  # type: ignore[arg-type]
    ask(node, lambda admin: admin.elect_preferred_leaders([]))
    assert len(node.requests) == 1, "no partition is not the same as all"


def test_moves_name_replicas_or_are_called_off() -> None:
    moving = admin_pb2.Reassignment(partition=name("t", 0), replicas=[1, 2], adding_replicas=[2], isr=[1])
    node = ScriptedNode(
        ReassignPartitions=admin_pb2.ReassignPartitionsResponse(),
        ListReassignments=admin_pb2.ListReassignmentsResponse(reassignments=[moving]),
    )
    ask(node, lambda admin: admin.reassign_partitions({("t", 0): [1, 2], ("t", 1): None}))
    [request] = node.requests
    assert [list(move.replicas) for move in request.moves] == [[1, 2], []]
    [found] = ask(node, lambda admin: admin.list_reassignments())
    assert found == types.Reassignment(("t", 0), (1, 2), (2,), (), (1,))  # type: ignore[arg-type]


def test_every_other_answer_becomes_a_value() -> None:
    node = ScriptedNode(
        ListTopics=admin_pb2.ListTopicsResponse(topics=[admin_pb2.TopicListing(name="t", topic_id="id")]),
        DescribeTopic=admin_pb2.DescribeTopicResponse(topic=topic_message()),
        AlterConfigs=admin_pb2.AlterConfigsResponse(topic_id="id"),
        CreatePartitions=admin_pb2.CreatePartitionsResponse(topic=topic_message()),
        DescribeCluster=admin_pb2.DescribeClusterResponse(
            cluster_id="c",
            brokers=[admin_pb2.BrokerDescription(broker_id=1, is_fenced=True)],
            controllers=[admin_pb2.ControllerDescription(node_id=9, address="n:1")],
        ),
        DescribeQuorum=admin_pb2.DescribeQuorumResponse(
            leader=1, voters=[admin_pb2.VoterDescription(node_id=1, state="leader")]
        ),
        RecoverPartition=admin_pb2.RecoverPartitionResponse(
            leader=2, candidates=[admin_pb2.RecoveryCandidate(broker_id=2, last_epoch=3, log_end_offset=4)]
        ),
        CheckBrokerRestart=admin_pb2.CheckBrokerRestartResponse(is_safe=False, reasons=["t-0 would stop"]),
        DrainBroker=admin_pb2.DrainBrokerResponse(remaining_leaders=[name("t", 0)]),
        DecommissionBroker=admin_pb2.DecommissionBrokerResponse(remaining_replica_count=3),
        AddVoter=admin_pb2.AddVoterResponse(directory_id="d"),
        RemoveVoter=admin_pb2.RemoveVoterResponse(),
        TransferController=admin_pb2.TransferControllerResponse(controller=2),
        UpdateFeatureLevel=admin_pb2.UpdateFeatureLevelResponse(level=4),
    )

    async def scenario(admin: AsyncAdmin) -> None:
        assert await admin.list_topics() == [types.TopicListing("t", "id", 0, 0)]
        assert (await admin.describe_topic("t")).partitions[0].isr == (1, 2)
        assert len((await admin.create_partitions("t", 2)).partitions) == 2
        assert node.requests[-1].topic_id == "id", "a copy does not reach the next topic of that name"
        cluster = await admin.describe_cluster()
        assert (cluster.controller, cluster.brokers[0].is_fenced, cluster.controllers[0].node_id) == (
            None,
            True,
            9,
        )
        quorum = await admin.describe_quorum()
        assert (quorum.voters[0].state, quorum.voters[0].is_digest_equal) == ("leader", None)
        recovered = await admin.recover_partition(("t", 0), accept_missing_replicas=True)
        assert recovered.candidates == (types.RecoveryCandidate(2, 3, 4, is_missing=False),)
        # The only voter there is.
        check = await admin.check_broker_restart(1)
        assert (check.is_safe, check.reasons[0]) == (False, "t-0 would stop")
        assert check.reasons[1].startswith("Of 1 voter no majority is left without broker 1")
        assert await admin.drain_broker(1) == [("t", 0)]
        assert await admin.decommission_broker(1) == types.DecommissionProgress(3, 0, is_removed=False)
        assert await admin.add_voter(4, "n:1") == "d"
        await admin.remove_voter(4, directory_id="d")
        assert await admin.transfer_controller(2) == 2
        assert await admin.update_feature_level() == 4

    ask(node, scenario)


# -- offsets


def on_cluster(work: Callable[[FakeCluster, AsyncAdmin], Awaitable[None]]) -> None:
    async def scenario(cluster: FakeCluster) -> None:
        admin = AsyncAdmin(
            "b1:1",
            transport=SimTransport(cluster.network, "client"),
            clock=cluster.simulation.clock,
            rng=cluster.simulation.rng,
        )
        async with admin:
            await work(cluster, admin)

    simulate(scenario)


def test_offsets_are_asked_from_the_leader_of_each_partition() -> None:
    async def work(cluster: FakeCluster, admin: AsyncAdmin) -> None:
        for number, partition in enumerate(cluster.add_topic(partitions=3).partitions):
            partition.fill(10 + number)
        cluster.topics["t"].partitions[0].delete_before(10)
        latest = await admin.list_offsets("t")
        assert [(tuple(each), found.offset) for each, found in latest.items()] == [
            (("t", 0), 10),
            (("t", 1), 11),
            (("t", 2), 12),
        ]
        assert {broker for broker, method, _ in cluster.asked if method == "ListOffsets"} == {1, 2, 3}
        earliest = await admin.list_offsets([("t", 2), ("t", 0)], "earliest")
        assert [found.offset for found in earliest.values()] == [0, 10]
        timed = await admin.list_offsets("t", TIMESTAMP + 11)
        assert [found.offset for found in timed.values()] == [None, None, 11]

    on_cluster(work)


@pytest.mark.parametrize(
    ("partitions", "message"),
    [
        (5, "partitions is 5"),
        (["t"], "a partition is a topic and a number, not 't'"),
        ([("t",)], r"a partition is a topic and a number, not \('t',\)"),
        ([("t", "0")], r"partition is '0' \(str\): an int"),
        ([("t", 1 << 31)], "partition is .* 32 bits"),
        ([(None, 0)], "topic is None"),
    ],
)
def test_offsets_are_asked_of_pairs_of_a_name_and_a_number(partitions: Any, message: str) -> None:
    async def work(cluster: FakeCluster, admin: AsyncAdmin) -> None:
        with pytest.raises(InvalidRequest, match=message):
            await admin.list_offsets(partitions)

    on_cluster(work)


def test_offsets_are_asked_again_where_a_leader_moves_or_is_not_ready() -> None:
    async def work(cluster: FakeCluster, admin: AsyncAdmin) -> None:
        first, second = cluster.add_topic(partitions=2).partitions
        first.fill(5)
        second.fill(7)
        await admin.list_offsets("t")
        first.elect(3)
        second.errors["ListOffsets"] = deque([OffsetNotAvailable("new leader"), NotLeaderOrFollower("?")])
        cluster.tell()
        found = await admin.list_offsets("t")
        assert [each.offset for each in found.values()] == [5, 7]

    on_cluster(work)


def test_offsets_of_what_is_not_there_are_refused() -> None:
    async def work(cluster: FakeCluster, admin: AsyncAdmin) -> None:
        cluster.add_topic()
        with pytest.raises(UnknownTopicOrPartition, match="1 partitions"):
            await admin.list_offsets([("t", 1)])
        with pytest.raises(UnknownTopicOrPartition):
            await admin.list_offsets("nowhere")
        cluster.kill(1)
        with pytest.raises((NotLeaderOrFollower, Unavailable)):
            await admin.list_offsets("t", timeout=5)

    on_cluster(work)


# -- the synchronous one


def test_both_admins_have_the_same_calls() -> None:
    ours = {each: inspect.signature(call) for each, call in public(Admin).items()}
    theirs = {each: inspect.signature(call) for each, call in public(AsyncAdmin).items()}
    assert ours == theirs


def public(kind: type) -> dict[str, Any]:
    return {each: call for each, call in vars(kind).items() if not each.startswith("_")}


def test_the_synchronous_admin_answers_raises_and_closes() -> None:
    node = ScriptedNode(
        ListTopics=admin_pb2.ListTopicsResponse(),
        DescribeTopic=UnknownTopicOrPartition("no topic"),
    )
    with Admin("node:1", transport=node) as admin:
        assert admin.list_topics() == []
        with pytest.raises(UnknownTopicOrPartition):
            admin.describe_topic("t")
    admin.close()
    with pytest.raises(ClientClosed):
        admin.list_topics()
