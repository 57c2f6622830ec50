"""A coordinator in memory, as the protocol has it and as simple as that allows, failing on demand.

It gives partitions to members by counting, moves each member to its target by itself, frees a partition when
its member says so, and fences commits by epochs. Tests look at what it was told, and when.
"""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

from quorate.chaos.models.producer.simulated_brokers import BOOTSTRAP, simulate_with
from quorate.chaos.sim.clock import Simulation
from quorate.chaos.sim.transport import SimTransport
from quorate.client.admin.async_admin import AsyncAdmin
from quorate.client.consumer.async_consumer import AsyncConsumer
from quorate.core.transport import Call, Service
from quorate.errors import (
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    FencedMemberEpoch,
    GroupNotEmpty,
    GroupNotFound,
    InvalidRequest,
    InvalidUpdateVersion,
    NotCoordinator,
    QuorateError,
    StaleMemberEpoch,
    UnknownMember,
)
from quorate.rpc.error_detail import detail_from_error
from quorate.v1 import group_pb2
from tests.unit.client.fake_log_broker import FakeBroker, FakeCluster, FakeState

T = TypeVar("T")


class Held(NamedTuple):
    topic_id: str
    topic: str
    partition: int


class Committed(NamedTuple):
    offset: int
    leader_epoch: int | None
    metadata: str


@dataclass
class FakeMember:
    subscription: group_pb2.GroupSubscription
    epoch: int
    #: the earliest that it may speak in: answers get lost
    previous_epoch: int = 0
    #: what it may hold, and since which epoch
    assigned: dict[Held, int] = field(default_factory=dict)
    revoking: dict[Held, int] = field(default_factory=dict)
    calls: int = 0
    is_away: bool = False


class FakeGroup:
    def __init__(self, state: GroupState, name: str) -> None:
        self._state = state
        self.name = name
        self.epoch = 0
        self.members: dict[str, FakeMember] = {}
        self.offsets: dict[tuple[str, int], Committed] = {}
        #: the revision that each offset was committed in
        self.committed_in: dict[tuple[str, int], int] = {}
        self.changed = asyncio.Event()

    def tell(self) -> None:
        """Whoever waits looks again."""
        self.changed.set()
        self.changed = asyncio.Event()

    def rebalance(self) -> None:
        self.epoch += 1
        self.tell()

    def remove(self, member_id: str) -> None:
        """As when its session is over."""
        del self.members[member_id]
        self.rebalance()

    # -- who is to have what

    def targets(self) -> dict[str, set[Held]]:
        targets: dict[str, set[Held]] = {member_id: set() for member_id in self.members}
        for name, topic in sorted(self._state.topics.items()):
            readers = [
                each
                for each in sorted(self.members, key=self._place)
                if self._wants(self.members[each], name)
            ]
            for number in range(len(topic.partitions)) if readers else ():
                owner = self._state.pinned_to.get((name, number)) or readers[number % len(readers)]
                targets[owner].add(Held(topic.topic_id, name, number))
        return targets

    def _place(self, member_id: str) -> str:
        return self.members[member_id].subscription.instance_id or member_id

    def _wants(self, member: FakeMember, topic: str) -> bool:
        subscription = member.subscription
        if topic in subscription.topics:
            return True
        return bool(subscription.pattern) and re.fullmatch(subscription.pattern, topic) is not None

    def reconcile(self, member_id: str) -> None:
        """One member a step towards its target."""
        member, target = self.members[member_id], self.targets()[member_id]
        for each in [each for each in member.assigned if each not in target]:
            member.revoking[each] = member.assigned.pop(each)
        if member.revoking:
            return
        gained = [each for each in sorted(target) if each not in member.assigned and not self._is_held(each)]
        if gained or not member.epoch:
            # Partitions come with an epoch of their own, and in no other way.
            self.epoch += 1
            member.epoch = self.epoch
            member.assigned.update(dict.fromkeys(gained, self.epoch))

    def _is_held(self, partition: Held) -> bool:
        return any(
            partition in member.assigned or partition in member.revoking for member in self.members.values()
        )


class GroupState(FakeState):
    """What the brokers of a cluster with groups share."""

    def start_groups(self) -> None:
        self.groups: dict[str, FakeGroup] = {}
        #: counts changes of offsets
        self.revision = 1
        self.coordinator: int | None = 1
        self.is_loading = False
        #: errors for the next calls, by method
        self.group_errors: dict[str, deque[QuorateError]] = {}
        #: owners that a test chooses, by topic and partition
        self.pinned_to: dict[tuple[str, int], str] = {}
        self.heartbeat_interval_ms = 3000
        #: (time, broker, request) of all that was asked
        self.heard: list[tuple[float, int, Any]] = []
        #: the heartbeat that reaches the coordinator after the next one, whose answer gets lost
        self.hold_back: Callable[[group_pb2.GroupHeartbeatRequest], bool] | None = None
        self.held_back: group_pb2.GroupHeartbeatRequest | None = None
        #: so many answers to FetchOffsets lack their last partition
        self.leave_out = 0
        #: requests whose effect there is, and whose answer gets lost
        self.lose_answers: dict[str, int] = {}
        #: how many seconds the next answers take, by method; their effects are there at once
        self.delay_answers: dict[str, deque[float]] = {}

    def group(self, name: str = "g") -> FakeGroup:
        if name not in self.groups:
            self.groups[name] = FakeGroup(self, name)
        return self.groups[name]

    def requests(self, kind: type[T]) -> list[T]:
        return [request for _, _, request in self.heard if isinstance(request, kind)]

    def heartbeats(self, member_id: str | None = None) -> list[group_pb2.GroupHeartbeatRequest]:
        found = self.requests(group_pb2.GroupHeartbeatRequest)
        return [each for each in found if member_id is None or each.member_id == member_id]

    def commits(self) -> list[group_pb2.CommitOffsetsRequest]:
        return self.requests(group_pb2.CommitOffsetsRequest)

    def committed(self, partition: int = 0, *, topic: str = "t", group: str = "g") -> int | None:
        found = self.group(group).offsets.get((self.topics[topic].topic_id, partition))
        return None if found is None else found.offset

    def commit(
        self, partition: int, offset: int, *, topic: str = "t", leader_epoch: int | None = None
    ) -> None:
        """By an earlier life of the group."""
        key = self.topics[topic].topic_id, partition
        self.put(self.group(), key, Committed(offset, leader_epoch, ""))

    def put(self, group: FakeGroup, key: tuple[str, int], committed: Committed) -> None:
        group.offsets[key] = committed
        self.revision += 1
        group.committed_in[key] = self.revision

    def has_changed(self, group: FakeGroup, key: tuple[str, int], revision: str) -> bool:
        """Since then. Whoever is no member has to name one."""
        if not revision:
            raise InvalidRequest("revision is missing")
        return key in group.offsets and group.committed_in[key] > int(revision)


class GroupCluster(FakeCluster, GroupState):
    """Three brokers with logs, one of which coordinates the groups."""

    def __init__(self, simulation: Simulation) -> None:
        super().__init__(simulation)
        self.start_groups()
        self._nodes = 0

    async def start_broker(self, broker_id: int) -> None:
        transport = SimTransport(self.network, f"b{broker_id}")
        services = [FakeBroker(broker_id, self).service(), FakeCoordinator(broker_id, self).service()]
        await transport.serve(f"b{broker_id}:1", services)

    def member(self, *, node: str | None = None, group: str = "g", **options: Any) -> AsyncConsumer:
        """On a machine of its own."""
        self._nodes += 1
        seams = {**self.client_seams(), "transport": SimTransport(self.network, node or f"c{self._nodes}")}
        return AsyncConsumer(BOOTSTRAP, group=group, **seams, **options)

    def admin(self) -> AsyncAdmin:
        return AsyncAdmin(BOOTSTRAP, **self.client_seams())

    def elect_coordinator(self, broker_id: int | None) -> None:
        """The state is in the log, so the next one has it, too; whoever waits at the old one is told."""
        self.coordinator = broker_id
        for group in self.groups.values():
            group.tell()

    def kill_coordinator(self, successor: int | None) -> None:
        assert self.coordinator is not None
        dead = self.coordinator
        for topic in self.topics.values():
            for partition in topic.partitions:
                if partition.leader == dead and successor is not None:
                    partition.elect(successor)
        self.elect_coordinator(successor)
        self.kill(dead)

    async def sleep(self, seconds: float) -> None:
        await self.simulation.clock.sleep(seconds)

    def now(self) -> float:
        return self.simulation.clock.monotonic()


def simulate(scenario: Callable[[GroupCluster], Awaitable[T]], *, seed: int = 1) -> T:
    return simulate_with(GroupCluster, scenario, seed=seed)


class FakeCoordinator:
    def __init__(self, broker_id: int, state: GroupState) -> None:
        self._id = broker_id
        self._state = state

    def service(self) -> Service:
        descriptor = group_pb2.DESCRIPTOR.services_by_name["GroupService"]
        handlers: dict[str, Any] = {
            "FindCoordinators": self.find,
            "GroupHeartbeat": self._of_coordinator("GroupHeartbeat", self.heartbeat),
            "CommitOffsets": self._of_coordinator("CommitOffsets", self.commit),
            "FetchOffsets": self._of_coordinator("FetchOffsets", self.fetch),
            "ListGroups": self._noted("ListGroups", self.list_groups),
            "DescribeGroups": self._noted("DescribeGroups", self.describe),
            "DeleteGroups": self._noted("DeleteGroups", self.delete),
            "DeleteOffsets": self._of_coordinator("DeleteOffsets", self.delete_offsets),
        }
        return Service(descriptor, handlers, long_polls=["GroupHeartbeat"])

    async def find(
        self, request: group_pb2.FindCoordinatorsRequest, call: Call
    ) -> group_pb2.FindCoordinatorsResponse:
        self._hear("FindCoordinators", request)
        response = group_pb2.FindCoordinatorsResponse()
        coordinator = self._state.coordinator
        for group in request.groups:
            found = response.coordinators.add(group=group)
            if coordinator is None:
                found.error.CopyFrom(detail_from_error(CoordinatorNotAvailable("nobody", group=group)))
            else:
                found.broker_id, found.address = coordinator, self._state.addresses[coordinator]
        return response

    # -- how calls are made

    def _hear(self, method: str, request: Any) -> None:
        loop = asyncio.get_running_loop()
        self._state.heard.append((loop.time(), self._id, request))
        scripted = self._state.group_errors.get(method)
        if scripted:
            raise scripted.popleft()

    def _noted(self, method: str, handler: Any) -> Any:
        async def handle(request: Any, call: Call) -> Any:
            self._hear(method, request)
            return await self._lost(method, await handler(request, call))

        return handle

    async def _lost(self, method: str, response: Any) -> Any:
        if self._state.lose_answers.get(method, 0) > 0:
            self._state.lose_answers[method] -= 1
            await asyncio.Event().wait()
        delays = self._state.delay_answers.get(method)
        if delays:
            await asyncio.sleep(delays.popleft())
        return response

    def _of_coordinator(self, method: str, handler: Any) -> Any:
        async def handle(request: Any, call: Call) -> Any:
            self._hear(method, request)
            self._check()
            return await self._lost(method, await handler(request, call))

        return handle

    def _check(self) -> None:
        if self._state.coordinator != self._id:
            address = self._state.addresses.get(self._state.coordinator or 0, "")
            raise NotCoordinator("not here", broker_id=self._state.coordinator, address=address)
        if self._state.is_loading:
            raise CoordinatorLoadInProgress("loading")

    # -- members

    async def heartbeat(
        self, request: group_pb2.GroupHeartbeatRequest, call: Call
    ) -> group_pb2.GroupHeartbeatResponse:
        group = self._state.group(request.group)
        if self._state.hold_back is not None and self._state.hold_back(request):
            self._state.hold_back, self._state.held_back = None, request
            count = len(self._state.heartbeats(request.member_id))
            while len(self._state.heartbeats(request.member_id)) == count:  # noqa: ASYNC110 - simulated
                await asyncio.sleep(0.001)
            await asyncio.sleep(0.001)
        elif self._state.held_back is not None and self._state.held_back.member_id == request.member_id:
            self._state.held_back, self._state.lose_answers = None, {"GroupHeartbeat": 1}
        if request.member_epoch < 0:
            return self._leave(group, request)
        member = self._member(group, request)
        owned = {Held(each.topic_id, each.topic, n) for each in request.owned for n in each.partitions}
        if not owned <= {*member.assigned, *member.revoking}:
            raise FencedMemberEpoch("it holds what it was not given")
        for each in [each for each in member.revoking if each not in owned]:
            if request.member_epoch == member.epoch:
                del member.revoking[each]
                group.tell()
        if request.HasField("subscription") and request.subscription != member.subscription:
            member.subscription = request.subscription
            group.rebalance()
        member.calls += 1
        group.tell()
        return await self._answer(group, request, member, owned)

    def _leave(
        self, group: FakeGroup, request: group_pb2.GroupHeartbeatRequest
    ) -> group_pb2.GroupHeartbeatResponse:
        member = group.members.get(request.member_id)
        if member is not None and request.member_epoch == -2:
            member.is_away = True
        elif member is not None:
            group.remove(request.member_id)
        return group_pb2.GroupHeartbeatResponse(member_epoch=request.member_epoch)

    def _member(self, group: FakeGroup, request: group_pb2.GroupHeartbeatRequest) -> FakeMember:
        if request.member_epoch == 0:
            self._replace_static(group, request)
            if request.member_id not in group.members:
                group.members[request.member_id] = FakeMember(request.subscription, 0)
                group.rebalance()
            return group.members[request.member_id]
        member = group.members.get(request.member_id)
        if member is None:
            raise UnknownMember("no such member", member=request.member_id)
        if not member.previous_epoch <= request.member_epoch <= member.epoch:
            raise FencedMemberEpoch(f"epoch {request.member_epoch}, not {member.epoch}")
        member.previous_epoch = request.member_epoch
        return member

    def _replace_static(self, group: FakeGroup, request: group_pb2.GroupHeartbeatRequest) -> None:
        """Whoever comes back under the name of one that is away gets what it had."""
        instance_id = request.subscription.instance_id
        for member_id, member in list(group.members.items()):
            if instance_id and member.subscription.instance_id == instance_id and member.is_away:
                del group.members[member_id]
                member.is_away, member.subscription = False, request.subscription
                group.members[request.member_id] = member

    async def _answer(
        self,
        group: FakeGroup,
        request: group_pb2.GroupHeartbeatRequest,
        member: FakeMember,
        owned: set[Held],
    ) -> group_pb2.GroupHeartbeatResponse:
        number = member.calls
        deadline = asyncio.get_running_loop().time() + request.max_wait_ms / 1000
        while True:
            self._check()
            if group.members.get(request.member_id) is not member:
                raise UnknownMember("removed", member=request.member_id)
            group.reconcile(request.member_id)
            is_news = member.epoch != request.member_epoch or owned != member.assigned.keys()
            now = asyncio.get_running_loop().time()
            if is_news or number != member.calls or now >= deadline:
                return self._response(member)
            try:
                async with asyncio.timeout_at(deadline):
                    await group.changed.wait()
            except TimeoutError:
                continue

    def _response(self, member: FakeMember) -> group_pb2.GroupHeartbeatResponse:
        topics: dict[str, group_pb2.TopicPartitions] = {}
        for each in sorted(member.assigned):
            found = topics.setdefault(
                each.topic_id, group_pb2.TopicPartitions(topic_id=each.topic_id, topic=each.topic)
            )
            found.partitions.append(each.partition)
        return group_pb2.GroupHeartbeatResponse(
            member_epoch=member.epoch,
            assignment=topics.values(),
            heartbeat_interval_ms=self._state.heartbeat_interval_ms,
            session_timeout_ms=30_000,
        )

    # -- offsets

    async def commit(
        self, request: group_pb2.CommitOffsetsRequest, call: Call
    ) -> group_pb2.CommitOffsetsResponse:
        group = self._state.group(request.group)
        if not request.member_id and group.members:
            raise UnknownMember("it has members: nobody else may commit")
        member = group.members.get(request.member_id)
        if request.member_id and member is None:
            raise UnknownMember("no such member", member=request.member_id)
        response = group_pb2.CommitOffsetsResponse()
        for offset in request.offsets:
            result = response.results.add(topic_id=offset.topic_id, partition=offset.partition)
            epoch = offset.leader_epoch if offset.HasField("leader_epoch") else None
            committed = Committed(offset.offset, epoch, offset.metadata)
            key = offset.topic_id, offset.partition
            try:
                self._check_commit(member, request.member_epoch, offset)
                if member is None and self._state.has_changed(group, key, request.revision):
                    if group.offsets[key] == committed:
                        continue
                    raise InvalidUpdateVersion("others have committed")
            except QuorateError as error:
                result.error.CopyFrom(detail_from_error(error))
                continue
            self._state.put(group, key, committed)
        response.revision = str(self._state.revision)
        return response

    def _check_commit(self, member: FakeMember | None, epoch: int, offset: group_pb2.OffsetToCommit) -> None:
        if member is None:
            return
        if epoch > member.epoch:
            raise FencedMemberEpoch("from the future")
        held = {**member.revoking, **member.assigned}
        since = {(each.topic_id, each.partition): since for each, since in held.items()}
        if since.get((offset.topic_id, offset.partition), epoch + 1) > epoch:
            raise StaleMemberEpoch("not its partition in that epoch")

    async def fetch(
        self, request: group_pb2.FetchOffsetsRequest, call: Call
    ) -> group_pb2.FetchOffsetsResponse:
        group = self._state.group(request.group)
        if request.member_id:
            member = group.members.get(request.member_id)
            if member is None:
                raise UnknownMember("no such member", member=request.member_id)
            if request.member_epoch != member.epoch:
                raise StaleMemberEpoch("another epoch")
        wanted = [(each.topic_id, n) for each in request.partitions for n in each.partitions]
        response = group_pb2.FetchOffsetsResponse(revision=str(self._state.revision))
        for topic_id, partition in wanted or sorted(group.offsets):
            entry = response.offsets.add(topic_id=topic_id, partition=partition)
            found = group.offsets.get((topic_id, partition))
            if found is not None:
                entry.offset, entry.metadata = found.offset, found.metadata
                if found.leader_epoch is not None:
                    entry.leader_epoch = found.leader_epoch
                entry.topic = next(n for n, t in self._state.topics.items() if t.topic_id == topic_id)
        if request.partitions and self._state.leave_out > 0:
            self._state.leave_out -= 1
            del response.offsets[-1]
        return response

    # -- for administration

    async def list_groups(
        self, request: group_pb2.ListGroupsRequest, call: Call
    ) -> group_pb2.ListGroupsResponse:
        response = group_pb2.ListGroupsResponse()
        if self._state.coordinator != self._id:
            return response
        if self._state.is_loading:
            response.loading.append(0)
            return response
        for name, group in sorted(self._state.groups.items()):
            state = group_pb2.GROUP_STATE_STABLE if group.members else group_pb2.GROUP_STATE_EMPTY
            response.groups.add(group=name, state=state, members=len(group.members))
        return response

    async def describe(
        self, request: group_pb2.DescribeGroupsRequest, call: Call
    ) -> group_pb2.DescribeGroupsResponse:
        response = group_pb2.DescribeGroupsResponse()
        for name in request.groups:
            described = response.groups.add(group=name, coordinator=self._id)
            try:
                self._check()
                group = self._existing(name)
            except QuorateError as error:
                described.error.CopyFrom(detail_from_error(error))
                continue
            described.state = group_pb2.GROUP_STATE_STABLE if group.members else group_pb2.GROUP_STATE_EMPTY
            described.group_epoch = group.epoch
            described.revision = str(self._state.revision)
            for member_id, member in sorted(group.members.items()):
                entry = described.members.add(member_id=member_id, member_epoch=member.epoch)
                entry.subscription.CopyFrom(member.subscription)
                entry.assignment.extend(self._response(member).assignment)
            for (topic_id, partition), found in sorted(group.offsets.items()):
                described.progress.add(
                    topic_id=topic_id, topic="t", partition=partition, committed_offset=found.offset, lag=7
                )
        return response

    async def delete(
        self, request: group_pb2.DeleteGroupsRequest, call: Call
    ) -> group_pb2.DeleteGroupsResponse:
        response = group_pb2.DeleteGroupsResponse()
        for name, revision in zip(request.groups, request.revisions, strict=True):
            result = response.results.add(group=name)
            try:
                self._check()
                group = self._state.groups.get(name)
                if group is None:
                    continue
                if group.members:
                    raise GroupNotEmpty("it has members", group=name)
                if any(self._state.has_changed(group, key, revision) for key in group.offsets):
                    raise InvalidUpdateVersion("others have committed")
                del self._state.groups[name]
            except QuorateError as error:
                result.error.CopyFrom(detail_from_error(error))
        return response

    async def delete_offsets(
        self, request: group_pb2.DeleteOffsetsRequest, call: Call
    ) -> group_pb2.DeleteOffsetsResponse:
        group = self._existing(request.group)
        response = group_pb2.DeleteOffsetsResponse()
        for each in request.partitions:
            for number in each.partitions:
                result = response.results.add(topic_id=each.topic_id, partition=number)
                if self._state.has_changed(group, (each.topic_id, number), request.revision):
                    result.error.CopyFrom(detail_from_error(InvalidUpdateVersion("others have committed")))
                else:
                    group.offsets.pop((each.topic_id, number), None)
        return response

    def _existing(self, name: str) -> FakeGroup:
        if name not in self._state.groups:
            raise GroupNotFound("there is none", group=name)
        return self._state.groups[name]
