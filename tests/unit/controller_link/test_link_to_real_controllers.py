"""The broker's link against real controllers, on simulated time, disks and network."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence
from typing import Any, Final

import pytest

from quorate.broker.controller_link.calls import ControllerCalls
from quorate.broker.controller_link.lease import Lease
from quorate.broker.controller_link.link import ControllerLink
from quorate.broker.controller_link.registration import Registered, Registration
from quorate.broker.controller_link.session import BrokerSession, SessionTiming
from quorate.chaos.sim.clock import SimClock
from quorate.chaos.sim.network import LinkFaults
from quorate.chaos.sim.server import SimServer
from quorate.chaos.sim.transport import SimTransport
from quorate.core.ids import BrokerEpoch, BrokerId, TopicName
from quorate.core.transport import Call, Service, methods_of
from quorate.errors import QuorateError, StaleBrokerEpoch, UnknownTopicOrPartition
from quorate.metadata.admin_forwarding import AdminForwarding
from quorate.metadata.follower import MetadataFollower
from quorate.metadata.image import BrokerImage, MetadataImage
from quorate.metadata.leader_descriptions import LeaderDescriptions
from quorate.v1 import admin_pb2, replica_pb2
from quorate.v1.controller_pb2 import PreviousRun, ReplicaName
from quorate.v1.errors_pb2 import ErrorDetail
from quorate.v1.replica_pb2 import DescribeReplicasRequest, DescribeReplicasResponse, ReplicaDescription
from tests.simulation.controller_world import World, run_world

_ADMIN: Final = methods_of(admin_pb2.DESCRIPTOR.services_by_name["AdminService"])
_TIMING: Final = SessionTiming(heartbeat_interval_s=0.25, silence_s_max=2.0)


class _Directory:
    """Outlives the processes that use it."""

    def __init__(self, name: str) -> None:
        self.directory_id = name
        self.cluster_id: str | None = None
        self.epoch: BrokerEpoch | None = None

    def previous_run(self) -> PreviousRun | None:
        if self.epoch is None:
            return None
        return PreviousRun(broker_epoch=self.epoch, is_same_boot=True, is_intact=True)

    def damaged(self) -> Sequence[ReplicaName]:
        return []

    async def note_incarnation(self, incarnation_id: str) -> None: ...

    async def note_epoch(self, broker_epoch: BrokerEpoch, cluster_id: str) -> None:
        self.epoch, self.cluster_id = broker_epoch, cluster_id


class LinkedBroker:
    """All of a broker but its logs."""

    def __init__(
        self,
        world: World,
        broker_id: int,
        directory: _Directory | None = None,
        *,
        machine: str | None = None,
    ) -> None:
        self._world = world
        self.broker_id = BrokerId(broker_id)
        self.name = machine or f"b{broker_id}"
        self.address = f"{self.name}:9092"
        self.directory = directory or _Directory(f"directory-of-{broker_id}")
        self.clock = SimClock(world.simulation.loop)
        self.transport = SimTransport(world.network, self.name)
        controllers = [each.address for each in world.controllers]
        rng = world.simulation.rng
        self.link = ControllerLink(self.transport, controllers, clock=self.clock, rng=rng)
        self.lease = Lease(self.clock, duration_s=2.0)
        self.follower = MetadataFollower(
            self.transport,
            controllers,
            clock=self.clock,
            broker_id=self.broker_id,
            on_image=lambda *_: None,
        )
        self.registration = Registration(
            self.link,
            self.directory,
            broker_id=self.broker_id,
            address=self.address,
            rack=None,
            clock=self.clock,
            rng=rng,
            random_bytes=rng.randbytes,
        )
        self.registered: Registered
        self.session: BrokerSession
        self.running: asyncio.Task[None]
        self._server: SimServer
        #: how this broker answers DescribeReplicas
        self.describe: Any = lambda _replica: None

    async def start(self) -> None:
        """Returns once it is unfenced."""
        self._server = await self.transport.serve(self.address, [self._replica_service(), self._admin()])
        self.registered = await self.registration.register()
        self.session = BrokerSession(
            self.link,
            self.registered,
            self.lease,
            timing=_TIMING,
            clock=self.clock,
            metadata_offset=lambda: self.follower.image.offset,
            advance_cache_witness=lambda: None,
            device_witness=lambda: None,
            is_unusable=lambda _: True,
        )
        self.running = asyncio.create_task(self._run(), name=f"run-{self.name}")
        self.session.want_unfence()
        await self.session.unfenced()

    async def kill(self) -> None:
        self._server.kill()
        self._world.network.break_all_connections(self.name)
        await self.stop()

    async def stop(self) -> None:
        self._server.kill()
        self.running.cancel()
        await asyncio.wait([self.running])
        await self.link.close()

    @property
    def calls(self) -> ControllerCalls:
        return ControllerCalls(clock=self.clock, link=self.link, registered=self.registered)

    async def ask(self, method: str, request: Any) -> Any:
        """A call of AdminService at this broker, from elsewhere."""
        channel = SimTransport(self._world.network, "client").connect(self.address)
        try:
            return await channel.call(_ADMIN[method], request, timeout_s=20)
        finally:
            await channel.close()

    async def _run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.follower.run())
            tasks.create_task(self.session.run())

    def _admin(self) -> Service:
        return AdminForwarding(
            ControllerCalls(clock=self.clock, link=self.link).administer,
            LeaderDescriptions(self.transport, lambda: self.follower.image.brokers),
            clock=self.clock,
            random_bytes=self._world.simulation.rng.randbytes,
        ).service()

    def _replica_service(self) -> Service:
        async def describe(request: DescribeReplicasRequest, _call: Call) -> DescribeReplicasResponse:
            described = (self.describe(each) for each in request.replicas)
            return DescribeReplicasResponse(replicas=[each for each in described if each is not None])

        async def refuse(_request: Any, _call: Call) -> Any:
            raise AssertionError("not asked for here")

        descriptor = replica_pb2.DESCRIPTOR.services_by_name["ReplicaService"]
        return Service(
            descriptor,
            {**dict.fromkeys(methods_of(descriptor), refuse), "DescribeReplicas": describe},
        )


async def _start(world: World, count: int = 3) -> list[LinkedBroker]:
    brokers = [LinkedBroker(world, 100 + number) for number in range(count)]
    await asyncio.gather(*(broker.start() for broker in brokers))
    return brokers


def _newest_image(world: World) -> MetadataImage:
    return max((each.image for each in world.running), key=lambda image: image.offset)


def _state(world: World, broker: LinkedBroker) -> BrokerImage:
    return _newest_image(world).brokers[broker.broker_id]


def test_brokers_register_and_serve_and_their_leases_outlast_a_dead_controller_only_in_time() -> None:
    async def scenario(world: World) -> None:
        brokers = await _start(world)
        assert all(each.lease.is_valid for each in brokers)
        await (await world.active_controller()).kill()
        await asyncio.sleep(0.01)
        # The stream is broken: nobody answers alone until a new controller was heard.
        assert not any(each.lease.is_valid for each in brokers)
        took_s = await world.until(lambda: all(each.lease.is_valid for each in brokers))
        assert took_s < 2.5
        assert all(not _state(world, each).is_fenced for each in brokers)

    run_world(scenario)


def test_a_controlled_stop_is_granted_and_the_next_process_registers_at_once() -> None:
    async def scenario(world: World) -> None:
        brokers = await _start(world)
        await brokers[0].ask("CreateTopic", admin_pb2.CreateTopicRequest(name="orders", partition_count=6))
        assert await brokers[0].session.shut_down(30.0)
        await brokers[0].stop()
        topic = _newest_image(world).topic_named(TopicName("orders"))
        assert topic is not None
        assert all(each.leader != brokers[0].broker_id for each in topic.partitions)
        began_at = world.simulation.loop.time()
        successor = LinkedBroker(world, brokers[0].broker_id, brokers[0].directory)
        await successor.start()
        assert world.simulation.loop.time() - began_at < 1
        assert successor.registered.broker_epoch > brokers[0].registered.broker_epoch

    run_world(scenario)


def test_a_second_process_waits_for_the_session_of_the_first_and_then_ends_it() -> None:
    """Rule 35; the first one hangs: it is heard no more, and finds itself replaced when it goes on."""

    async def scenario(world: World) -> None:
        [first, *_] = await _start(world)
        for controller in world.controllers:
            world.network.block(first.name, controller.name)
        second = LinkedBroker(world, first.broker_id, first.directory, machine="spare")
        await second.start()
        assert not first.lease.is_valid
        world.network.heal()
        with pytest.raises(ExceptionGroup) as ended:
            await first.running
        assert ended.value.subgroup(StaleBrokerEpoch) is not None

    run_world(scenario)


@pytest.mark.parametrize("seed", range(6))
def test_nobody_holds_a_lease_once_the_controller_has_fenced_it(seed: int) -> None:
    """Rule 37, whoever is cut off and however late answers come: others may lead its partitions by then."""

    async def scenario(world: World) -> None:
        brokers = await _start(world)
        times_fenced = 0
        for _ in range(12):
            _trouble(world, world.simulation.rng.choice(brokers).name)
            ends_at = world.simulation.loop.time() + world.simulation.rng.uniform(0.5, 6.0)
            while world.simulation.loop.time() < ends_at:
                await asyncio.sleep(0.005)
                for broker in brokers:
                    if _state(world, broker).is_fenced:
                        times_fenced += 1
                        assert not broker.lease.is_valid, (broker.name, world.simulation.loop.time())
            world.network.heal()
        assert times_fenced
        for broker, controller in itertools.product(brokers, world.controllers):
            world.network.set_faults(controller.name, broker.name, None)
        await world.until(lambda: all(each.lease.is_valid for each in brokers))

    run_world(scenario, seed=seed)


def _trouble(world: World, broker: str) -> None:
    """Controllers lose sight of each other; what they say to the broker is late, what it says gets lost."""
    rng, network = world.simulation.rng, world.network
    controllers = [each.name for each in world.controllers]
    for _ in range(rng.randint(0, 2)):
        network.block(*rng.sample(controllers, 2))
    for controller in controllers:
        late_s = rng.choice([0.001, 0.5, 2.0])
        network.set_faults(controller, broker, LinkFaults(delay_s=(0.0, late_s)))
    for controller in rng.sample(controllers, rng.randint(1, 3)):
        world.simulation.loop.call_later(rng.uniform(0.0, 1.0), network.block, broker, controller)


def test_an_isr_and_producer_ids_are_asked_for_through_a_change_of_controllers() -> None:
    async def scenario(world: World) -> None:
        [broker, *_] = await _start(world)
        first = await broker.calls.allocate_producer_ids()
        await (await world.active_controller()).kill()
        second = await broker.calls.allocate_producer_ids()
        assert not set(first) & set(second)

    run_world(scenario)


def test_any_broker_administers_the_cluster() -> None:
    async def scenario(world: World) -> None:
        brokers = await _start(world)
        for number, broker in enumerate(brokers):
            await broker.ask("CreateTopic", admin_pb2.CreateTopicRequest(name=f"topic-{number}"))
        listed = await brokers[0].ask("ListTopics", admin_pb2.ListTopicsRequest())
        assert [each.name for each in listed.topics] == ["topic-0", "topic-1", "topic-2"]
        doomed = listed.topics[1].topic_id
        await brokers[1].ask("DeleteTopic", admin_pb2.DeleteTopicRequest(topic_id=doomed))
        with pytest.raises(UnknownTopicOrPartition):
            await brokers[2].ask("DescribeTopic", admin_pb2.DescribeTopicRequest(name="topic-1"))
        cluster = await brokers[2].ask("DescribeCluster", admin_pb2.DescribeClusterRequest())
        assert [each.broker_id for each in cluster.brokers] == [100, 101, 102]

    run_world(scenario)


def test_a_description_has_what_the_leaders_say_and_who_cannot_be_reached() -> None:
    async def scenario(world: World) -> None:
        brokers = await _start(world)
        create = admin_pb2.CreateTopicRequest(name="orders", partition_count=3, replication_factor=3)
        created = (await brokers[0].ask("CreateTopic", create)).topic
        assert sorted(each.leader for each in created.partitions) == [100, 101, 102]
        full = next(each.partition for each in created.partitions if each.leader == 101)
        for broker in brokers[:2]:
            broker.describe = lambda name: ReplicaDescription(
                replica=name,
                log_start_offset=1,
                high_watermark=5,
                log_end_offset=7,
                size_bytes=100,
                # Its disk is full: what is there is read.
                error=ErrorDetail(code="DISK_FULL") if name.partition == full else None,
            )
        # It hangs: silence, no refusal.
        world.network.block(brokers[0].name, brokers[2].name)
        request = admin_pb2.DescribeTopicRequest(name="orders")
        began_at = world.simulation.loop.time()
        described = (await brokers[0].ask("DescribeTopic", request)).topic
        assert world.simulation.loop.time() - began_at < 3
        for partition in described.partitions:
            if partition.leader == 102:
                assert partition.error.code == "REQUEST_TIMED_OUT"
                assert partition.error.facts["broker_id"].integer == 102
                assert not partition.HasField("high_watermark")
            else:
                assert partition.error.code == ("DISK_FULL" if partition.partition == full else "")
                assert (partition.log_start_offset, partition.high_watermark) == (1, 5)
                assert partition.size_bytes == 100
        world.network.heal()
        described = (await brokers[0].ask("DescribeTopic", request)).topic
        [late] = [each for each in described.partitions if each.leader == 102]
        assert late.error.code == "NOT_LEADER_OR_FOLLOWER"

    run_world(scenario)


def test_administration_ends_with_an_error_while_there_is_no_quorum() -> None:
    async def scenario(world: World) -> None:
        [broker, *_] = await _start(world)
        for controller in world.controllers[:2]:
            await controller.kill()
        with pytest.raises(QuorateError) as refused:
            await broker.ask("ListTopics", admin_pb2.ListTopicsRequest())
        assert refused.value.retriable

    run_world(scenario)
