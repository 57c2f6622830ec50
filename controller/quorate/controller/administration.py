"""What people ask of the active controller: every method of AdminService, by name.

Most are a decision on the image, or a look at it. Those that have to ask other nodes first (how far is each
voter, where do the logs of these replicas end) do so before the decision, never in the middle of it.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeAlias, TypeVar

from google.protobuf.message import DecodeError, Message

from quorate.controller.active import ActiveController
from quorate.controller.alter_configs import IsHeard, alter_configs
from quorate.controller.decision import Decision
from quorate.controller.decommission import decommission_broker
from quorate.controller.draining import drain_broker
from quorate.controller.log_ends import LogEnds
from quorate.controller.partition_counts import create_partitions
from quorate.controller.preferred import elect_preferred_leaders
from quorate.controller.quorum_administration import QuorumAdministration
from quorate.controller.reassignment import list_reassignments, reassign_partitions
from quorate.controller.recover import find_incident, is_recovered, recover_partition, replicas_to_ask
from quorate.controller.restart_check import check_broker_restart
from quorate.controller.topic_descriptions import describe_topic, list_topics
from quorate.controller.topics import create_topic, delete_topic
from quorate.core.clock import Clock
from quorate.core.ids import BrokerId
from quorate.core.transport import methods_of
from quorate.errors import InvalidRequest, RecoveryRefused, UnsupportedOperation
from quorate.metadata.image import MetadataImage
from quorate.v1 import admin_pb2

__all__ = ["Administration"]

_METHODS: Final = methods_of(admin_pb2.DESCRIPTOR.services_by_name["AdminService"])

Request = TypeVar("Request", bound=Message)
Response = TypeVar("Response", bound=Message)
Operation: TypeAlias = Callable[[Any], Awaitable[Message]]


class Administration:
    def __init__(
        self,
        active: ActiveController,
        quorum: QuorumAdministration,
        log_ends: LogEnds,
        *,
        clock: Clock,
        rng: random.Random,
        default_partition_count: int,
        is_heard: IsHeard,
    ) -> None:
        self._active = active
        self._is_heard = is_heard
        self._log_ends = log_ends
        self._clock = clock
        self._rng = rng
        self._default_partition_count = default_partition_count
        self._operations: Mapping[str, Operation] = {
            "CreateTopic": self._create_topic,
            "DeleteTopic": self._delete_topic,
            "ListTopics": self._reading(list_topics),
            "DescribeTopic": self._reading(describe_topic),
            "CreatePartitions": self._create_partitions,
            "AlterConfigs": self._alter_configs,
            "DescribeCluster": quorum.describe_cluster,
            "DescribeQuorum": quorum.describe_quorum,
            "AddVoter": quorum.add_voter,
            "RemoveVoter": quorum.remove_voter,
            "TransferController": quorum.transfer_controller,
            "UpdateFeatureLevel": quorum.update_feature_level,
            "ElectPreferredLeaders": self._deciding(elect_preferred_leaders),
            "ReassignPartitions": self._deciding(reassign_partitions),
            "ListReassignments": self._reading(list_reassignments),
            "RecoverPartition": self._recover_partition,
            "CheckBrokerRestart": self._reading(_check_broker_restart),
            "DrainBroker": self._deciding(drain_broker),
            "DecommissionBroker": self._deciding(decommission_broker),
        }
        assert self._operations.keys() == _METHODS.keys()

    async def call(self, method: str, content: bytes) -> bytes:
        """The method's request and response, serialised."""
        operation = self._operations.get(method)
        if operation is None:
            raise UnsupportedOperation(f"this version of the controller has no method {method}")
        request = _METHODS[method].request_type()
        try:
            request.ParseFromString(content)
        except DecodeError as error:
            raise InvalidRequest(f"{method}: not a {request.DESCRIPTOR.full_name}: {error}") from None
        return (await operation(request)).SerializeToString()

    def _reading(self, look: Callable[[MetadataImage, Request], Response]) -> Operation:
        async def operation(request: Request) -> Response:
            return look(await self._active.confirm(), request)

        return operation

    def _deciding(self, decide: Callable[[MetadataImage, Request], Decision[Response]]) -> Operation:
        async def operation(request: Request) -> Response:
            return await self._active.change(lambda image, _offset: decide(image, request))

        return operation

    async def _create_topic(self, request: admin_pb2.CreateTopicRequest) -> admin_pb2.CreateTopicResponse:
        return await self._active.change(
            lambda image, offset: create_topic(
                image,
                request,
                next_offset=offset,
                default_partition_count=self._default_partition_count,
                rng=self._rng,
            )
        )

    async def _delete_topic(self, request: admin_pb2.DeleteTopicRequest) -> admin_pb2.DeleteTopicResponse:
        now_ms = self._clock.wall_ms()
        return await self._active.change(lambda image, _offset: delete_topic(image, request, now_ms=now_ms))

    async def _create_partitions(
        self, request: admin_pb2.CreatePartitionsRequest
    ) -> admin_pb2.CreatePartitionsResponse:
        return await self._active.change(
            lambda image, offset: create_partitions(image, request, next_offset=offset, rng=self._rng)
        )

    async def _alter_configs(self, request: admin_pb2.AlterConfigsRequest) -> admin_pb2.AlterConfigsResponse:
        return await self._active.change(
            lambda image, offset: alter_configs(image, request, next_offset=offset, is_heard=self._is_heard)
        )

    async def _recover_partition(
        self, request: admin_pb2.RecoverPartitionRequest
    ) -> admin_pb2.RecoverPartitionResponse:
        asked = await self._active.confirm()
        partition = find_incident(asked, request)
        if is_recovered(partition, request):
            return admin_pb2.RecoverPartitionResponse(leader=partition.leader)
        broker_ids = replicas_to_ask(asked, partition)
        log_ends = await self._log_ends.ask(asked, partition, broker_ids)

        def decide(image: MetadataImage, _offset: int) -> Decision[admin_pb2.RecoverPartitionResponse]:
            now = find_incident(image, request)
            is_same = now is partition and all(_is_as_asked(image, asked, each) for each in broker_ids)
            if not is_same and not is_recovered(now, request):
                # What the replicas answered speaks of a state that is over.
                raise RecoveryRefused("the partition or its brokers changed while they were asked; try again")
            return recover_partition(image, request, log_ends=log_ends)

        return await self._active.change(decide)


def _is_as_asked(image: MetadataImage, asked: MetadataImage, broker_id: BrokerId) -> bool:
    before, now = asked.brokers.get(broker_id), image.brokers.get(broker_id)
    return now is before or (now is not None and now.is_as(before))


def _check_broker_restart(
    image: MetadataImage, request: admin_pb2.CheckBrokerRestartRequest
) -> admin_pb2.CheckBrokerRestartResponse:
    return check_broker_restart(image, request.broker_id)
