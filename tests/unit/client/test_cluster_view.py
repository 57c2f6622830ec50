"""What a client knows of the cluster: it never goes back, and asks in moderation."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, NoReturn

import pytest
import structlog

from quorate.chaos.models.producer.fake_broker import FakeBroker, FakeCluster, simulate
from quorate.chaos.sim.transport import SimTransport
from quorate.client.cluster import ClusterView
from quorate.client.groups.coordinator import FIND_COORDINATORS
from quorate.client.retrying import retrying
from quorate.core.backoff import Backoff
from quorate.core.ids import PartitionId, TopicName, TopicPartition
from quorate.core.transport import Service, methods_of
from quorate.errors import (
    ClientClosed,
    InvalidRequest,
    InvalidTopic,
    NoController,
    NotLeaderOrFollower,
    Overloaded,
    QuorateError,
    Unavailable,
    UnknownTopicOrPartition,
    UnsupportedOperation,
)
from quorate.v1 import admin_pb2, broker_pb2, group_pb2

TP = TopicPartition(TopicName("t"), PartitionId(0))


def view_of(cluster: FakeCluster, bootstrap: tuple[str, ...] = ("b1:1", "b2:1", "b3:1")) -> ClusterView:
    transport = SimTransport(cluster.network, "client")
    return ClusterView(transport, bootstrap, clock=cluster.simulation.clock, rng=cluster.simulation.rng)


def hint(leader: int, epoch: int, **facts: Any) -> QuorateError:
    return NotLeaderOrFollower("not me", leader=leader, leader_epoch=epoch, **facts)


def leader(view: ClusterView) -> tuple[int, int]:
    found = view.leader_of(TP)
    assert found is not None
    return found.broker_id, found.epoch


def test_one_address_is_enough_to_find_everybody() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        cluster.add_topic(partitions=3)
        view = view_of(cluster, ("b2:1",))
        topic = await view.topic("t", timeout_s=5)
        assert [each.leader for each in topic.partitions] == [1, 2, 3]
        assert view.leader_of(TP) == (1, "b1:1", 1)
        assert view.known_topic("t") is topic
        assert sorted(view.brokers) == [1, 2, 3]
        await view.close()

    simulate(scenario)


def test_dead_and_silent_addresses_are_passed_over() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        cluster.add_topic()
        cluster.network.block("client", "b1")
        view = view_of(cluster, ("b1:1", "nobody:1", "b3:1"))
        await view.topic("t", timeout_s=10)
        started = asyncio.get_running_loop().time()
        for _ in range(5):
            await view.refreshed()
        # Silence is remembered: not every refresh waits for the silent one again.
        assert asyncio.get_running_loop().time() - started < 3
        await view.close()

    simulate(scenario)


def test_nobody_there_is_said_so() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        view = view_of(cluster, ("nobody:1",))
        with pytest.raises(Unavailable, match=r"^nobody answers at any of nobody:1: .") as silence:
            await view.topic("t", timeout_s=1)
        assert isinstance(silence.value.__cause__, QuorateError), "the last reason"
        with pytest.raises(InvalidTopic):
            await view.topic("no topic", timeout_s=1)
        await view.close()
        with pytest.raises(ClientClosed):
            await view.refreshed()

    simulate(scenario)


def test_cluster_where_nobody_answers_is_told_once_with_its_addresses_and_again_after_an_answer() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        cluster.add_topic()
        view = view_of(cluster)
        with structlog.testing.capture_logs() as told:
            for expected in (1, 2):
                for broker in ("b1", "b2", "b3"):
                    cluster.network.block("client", broker)
                with pytest.raises(Unavailable):
                    await view.topic(f"u{expected}", timeout_s=1.5)
                before = [each["event"] for each in told].count("cluster_unreachable")
                assert before == expected - 1, "an election is shorter than that"
                with pytest.raises(Unavailable):
                    await view.topic(f"u{expected}", timeout_s=30)
                unreachable = [each for each in told if each["event"] == "cluster_unreachable"]
                assert len(unreachable) == expected
                assert unreachable[-1]["addresses"] == ["b1:1", "b2:1", "b3:1"]
                assert unreachable[-1]["log_level"] == "warning"
                for broker in ("b1", "b2", "b3"):
                    cluster.network.unblock("client", broker)
                await view.topic("t", timeout_s=30)
                await view.refreshed()
        await view.close()

    simulate(scenario)


def test_question_to_anybody_that_nobody_answers_names_everybody_who_was_asked() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        view = view_of(cluster, ("nobody:1", "none:2"))
        request = group_pb2.FindCoordinatorsRequest(groups=["g"])
        with pytest.raises(Unavailable, match=r"^nobody answers at any of nobody:1, none:2"):
            await view.call(FIND_COORDINATORS, request, timeout_s=1)
        await view.close()

    simulate(scenario)


async def start_controller(
    cluster: FakeCluster, name: str = "c1", *, brokers: Sequence[str] = (), error: QuorateError | None = None
) -> str:
    """It listens, and has no method of a broker, as gRPC says it; returns its address.

    ``error``: what it answers instead of naming the brokers.
    """

    async def refuse(_request: Any, _call: Any) -> NoReturn:
        raise InvalidRequest("no such method", grpc_status="UNIMPLEMENTED")

    async def describe(_request: Any, _call: Any) -> admin_pb2.DescribeClusterResponse:
        if error is not None:
            raise error
        return admin_pb2.DescribeClusterResponse(
            brokers=[admin_pb2.BrokerDescription(address=each, is_fenced=each[0] == "f") for each in brokers]
        )

    services = [
        Service(each, dict.fromkeys(methods_of(each), refuse))
        for each in (
            broker_pb2.DESCRIPTOR.services_by_name["BrokerService"],
            group_pb2.DESCRIPTOR.services_by_name["GroupService"],
        )
    ]
    administration = admin_pb2.DESCRIPTOR.services_by_name["AdminService"]
    services.append(
        Service(
            administration, {**dict.fromkeys(methods_of(administration), refuse), "DescribeCluster": describe}
        )
    )
    await SimTransport(cluster.network, name).serve(f"{name}:1", services)
    return f"{name}:1"


def test_client_that_was_given_controllers_alone_is_told_so_at_once() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        cluster.add_topic()
        silenced = NoController("nobody leads")
        first = await start_controller(cluster, "c1", error=silenced)
        second = await start_controller(cluster, "c2", error=silenced)
        view = view_of(cluster, (first,))
        asked_at = asyncio.get_running_loop().time()
        with pytest.raises(
            UnsupportedOperation, match=r"^c1:1: this is a controller, not a broker: bootstrap with brokers$"
        ):
            await view.topic("t", timeout_s=120)
        request = group_pb2.FindCoordinatorsRequest(groups=["g"])
        with pytest.raises(UnsupportedOperation, match=r"^c1:1: this is a controller"):
            await view.call(FIND_COORDINATORS, request, timeout_s=120)
        assert isinstance(view.unreachable(), UnsupportedOperation)
        await view.close()
        view = view_of(cluster, (first, second, "nobody:1"))
        with pytest.raises(UnsupportedOperation) as told:
            await view.topic("t", timeout_s=120)
        assert "these are controllers, not brokers" in told.value.message
        assert told.value.message.endswith("; nobody answers at nobody:1")
        assert asyncio.get_running_loop().time() - asked_at < 3
        await view.close()

    simulate(scenario)


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        (
            {"brokers": ["fenced:1", "b1:1", "b2:1", "b3:1"]},
            "c1:1: this is a controller, not a broker: bootstrap with brokers: b1:1,b2:1,b3:1",
        ),
        (
            {"brokers": []},
            (
                "c1:1: this is a controller, not a broker: bootstrap with brokers, once one has registered: "
                "there is none yet"
            ),
        ),
        (
            {"error": InvalidRequest("no such method", grpc_status="UNIMPLEMENTED")},
            "c1:1: this is no broker: bootstrap with brokers",
        ),
    ],
)
def test_controller_says_where_the_brokers_are(fields: dict[str, Any], told: str) -> None:
    async def scenario(cluster: FakeCluster) -> None:
        view = view_of(cluster, (await start_controller(cluster, **fields),))
        with pytest.raises(UnsupportedOperation) as refused:
            await view.topic("t", timeout_s=120)
        assert refused.value.message == told
        assert not refused.value.retriable
        await view.close()

    simulate(scenario)


def test_controller_among_brokers_is_passed_over() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        cluster.add_topic()
        view = view_of(cluster, (await start_controller(cluster), "b2:1"))
        for _ in range(4):
            await view.refreshed()
            assert sorted(view.brokers) == [1, 2, 3]
        for broker in ("b1", "b2", "b3"):
            cluster.network.block("client", broker)
        with pytest.raises(Unavailable, match=r"^nobody answers at any of"):
            await view.topic("t", timeout_s=30)
        await view.close()

    simulate(scenario)


def test_brokers_that_fell_silent_did_not_deny_a_topic() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        cluster.add_topic()
        view = view_of(cluster)
        await view.topic("t", timeout_s=5)
        for broker in ("b1", "b2", "b3"):
            cluster.network.block("client", broker)
        started = asyncio.get_running_loop().time()
        with pytest.raises(Unavailable, match=r"^nobody answers at any of b1:1, b2:1, b3:1"):
            await view.topic("u", timeout_s=1.5)
        assert asyncio.get_running_loop().time() - started < 3, "a round of silent brokers takes longer"
        await view.close()

    simulate(scenario)


def test_topic_that_brokers_deny_is_not_asked_for_any_more() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        view = view_of(cluster)
        with pytest.raises(UnknownTopicOrPartition):
            await view.topic("t", timeout_s=60)
        assert asyncio.get_running_loop().time() < 5
        cluster.add_topic()
        await view.refreshed()
        assert view.known_topic("t") is None
        await view.topic("t", timeout_s=5)
        await view.close()

    simulate(scenario)


def test_hint_counts_until_metadata_catches_up_and_an_old_one_never() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        (partition,) = cluster.add_topic()
        view = view_of(cluster)
        await view.topic("t", timeout_s=5)
        told = 0

        def count() -> None:
            nonlocal told
            told += 1

        view.on_update(count)
        view.apply_hint(TP, hint(2, 5, leader_address="b2:1"))
        assert (leader(view), told) == ((2, 5), 1)
        for old in (hint(3, 5), hint(3, 1), hint(-1, 9), NotLeaderOrFollower("knows nothing"), hint(9, 9)):
            view.apply_hint(TP, old)
        assert (leader(view), told) == ((2, 5), 1)
        await view.refreshed()
        assert leader(view) == (2, 5)
        partition.leader_epoch, partition.leader = 6, 3
        cluster.metadata_offset += 1
        await view.refreshed()
        assert leader(view) == (3, 6)
        view.apply_hint(TP, hint(1, 7))
        assert view.leader_of(TP) == (1, "b1:1", 7)
        await view.close()

    simulate(scenario)


def test_answer_of_a_broker_that_lags_behind_changes_nothing() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        (partition,) = cluster.add_topic()
        cluster.elect(partition, 2)
        view = view_of(cluster)
        await view.topic("t", timeout_s=5)
        assert leader(view) == (2, 2)
        partition.leader, partition.leader_epoch = 1, 1
        cluster.metadata_offset -= 1
        await view.refreshed()
        assert leader(view) == (2, 2)
        topic = cluster.topics.pop("t")
        await view.refreshed()
        assert view.known_topic("t") is not None
        cluster.metadata_offset += 5
        await view.refreshed()
        assert view.known_topic("t") is None
        assert topic
        await view.close()

    simulate(scenario)


def test_partition_that_was_just_added_is_found_whoever_has_not_heard_of_it() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        cluster.add_topic()
        newest = FakeCluster(cluster.simulation)
        newest.add_topic(partitions=2)
        newest.metadata_offset = cluster.metadata_offset + 1
        transport = SimTransport(cluster.network, "fresh")
        await transport.serve("fresh:1", [FakeBroker(2, newest).service()])
        view = view_of(cluster, ("b1:1", "b3:1", "fresh:1"))
        added = TopicPartition(TP.topic, PartitionId(1))
        assert len((await view.topic_with(added, timeout_s=5)).partitions) == 2
        await view.close()

    simulate(scenario)


def test_partition_is_denied_by_those_who_answer_alone_and_not_for_long() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        cluster.add_topic()
        view = view_of(cluster)
        for number in (1, -1):
            with pytest.raises(UnknownTopicOrPartition, match=f"^t has no partition {number}: it has 1"):
                await view.topic_with(TopicPartition(TP.topic, PartitionId(number)), timeout_s=60)
        clock = cluster.simulation.clock
        assert clock.monotonic() < 5
        for broker_id in (1, 2, 3):
            cluster.network.reject(f"b{broker_id}")
        with pytest.raises(Unavailable, match="nobody answers"):
            await view.topic_with(TopicPartition(TP.topic, PartitionId(1)), timeout_s=60)
        await view.close()

    simulate(scenario)


def test_who_asks_all_is_not_misled_by_the_one_that_is_cut_off() -> None:
    """A new client knows of no earlier answer, so any single broker may tell it what was so long ago."""

    async def scenario(cluster: FakeCluster) -> None:
        cluster.add_topic()
        newest = FakeCluster(cluster.simulation)
        newest.add_topic(partitions=4)
        newest.metadata_offset = cluster.metadata_offset + 5
        cluster.add_topic("deleted")
        cluster.metadata_offset -= 1
        # All but one say the old thing.
        transport = SimTransport(cluster.network, "fresh")
        await transport.serve("fresh:1", [FakeBroker(2, newest).service()])
        addresses = ("b1:1", "b3:1", "fresh:1")
        for first in range(3):
            view = view_of(cluster, addresses[first:] + addresses[:first])
            await view.refreshed_by_all(["t", "deleted"])
            topic = view.known_topic("t")
            assert topic is not None
            assert len(topic.partitions) == 4
            assert view.known_topic("deleted") is None
            await view.close()

    simulate(scenario)


def test_who_asks_all_waits_for_the_silent_ones_for_a_moment_only() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        cluster.add_topic()
        cluster.network.block("client", "b1")
        view = view_of(cluster, ("b1:1", "nobody:1", "b2:1"))
        await view.refreshed_by_all(["t"])
        started = asyncio.get_running_loop().time()
        await view.refreshed_by_all(["t"])
        assert view.known_topic("t") is not None
        assert asyncio.get_running_loop().time() - started < 1.5
        with pytest.raises(InvalidTopic):
            await view.refreshed_by_all(["no topic"])
        await view.close()

    simulate(scenario)


def test_refreshes_are_coalesced_and_kept_apart() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        cluster.add_topic()
        view = view_of(cluster)
        await view.topic("t", timeout_s=5)
        asked = cluster.metadata_requests
        for _ in range(1000):
            view.needs_refresh()
        await asyncio.gather(*(view.refreshed() for _ in range(100)))
        assert cluster.metadata_requests == asked + 1
        deadline = asyncio.get_running_loop().time() + 5
        while asyncio.get_running_loop().time() < deadline:
            await view.refreshed()
        assert cluster.metadata_requests - asked < 60
        await view.close()

    simulate(scenario)


def test_metadata_is_refreshed_by_itself_when_it_is_old() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        cluster.add_topic()
        view = view_of(cluster)
        await view.topic("t", timeout_s=5)
        cluster.add_topic(partitions=4)
        await asyncio.sleep(400)
        topic = view.known_topic("t")
        assert topic is not None
        assert len(topic.partitions) == 4
        await view.close()

    simulate(scenario)


def test_pauses_grow_with_jitter_and_begin_anew_after_success() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        backoff = Backoff(cluster.simulation.rng, first_s=0.1, pause_s_max=1.0)
        pauses = [backoff.next_s() for _ in range(6)]
        for pause, upper in zip(pauses, [0.1, 0.2, 0.4, 0.8, 1.0, 1.0], strict=True):
            assert upper / 2 <= pause <= upper
        assert len(set(pauses)) == 6
        backoff.reset()
        assert backoff.next_s() <= 0.1

    simulate(scenario)


def test_retrying_ends_with_the_last_error_when_its_time_is_up_or_the_error_is_final() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        errors: list[QuorateError] = []
        remaining: list[float] = []

        async def always(error: QuorateError, remaining_s: float) -> None:
            remaining.append(remaining_s)
            raise error

        clock, rng = cluster.simulation.clock, cluster.simulation.rng
        with pytest.raises(Overloaded):
            await retrying(
                lambda left: always(Overloaded("busy"), left),
                clock=clock,
                rng=rng,
                timeout_s=3,
                on_error=errors.append,
            )
        assert 2 < clock.monotonic() <= 3
        assert len(errors) == len(remaining) - 1 > 3
        assert remaining == sorted(remaining, reverse=True)
        with pytest.raises(InvalidTopic):
            await retrying(
                lambda left: always(InvalidTopic("never"), left), clock=clock, rng=rng, timeout_s=3
            )
        assert clock.monotonic() <= 3

    simulate(scenario)
