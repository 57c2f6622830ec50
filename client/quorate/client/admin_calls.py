"""Typed calls to AdminService, by whichever node answers.

Each request names the state that it wants, so it is sent again, to the next node, for as long as its time
allows: when a node dies with the answer, when the quorum is between two leaders. A copy of it may also come
long after it was carried out, when things are different. What a request needs so that this does no harm is
put into it here, before it is sent for the first time: CreateTopic gets its topic's id, DeleteTopic and
CreatePartitions name an id and not only a name, AlterConfigs the settings that it is based on,
RecoverPartition the incident, TransferController the voter.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

from google.protobuf.message import Message

from quorate.client.failover import Failover
from quorate.core.topic_names import topic_id_from
from quorate.core.transport import Method, methods_of
from quorate.errors import InvalidUpdateVersion, UnknownTopicOrPartition, VoterChangeRefused
from quorate.v1 import admin_pb2

__all__ = ["READ_TIMEOUT_S", "AdminCalls", "incident_of"]

Request = TypeVar("Request", bound=Message)
Response = TypeVar("Response", bound=Message)

_ADMIN_METHODS: Final = methods_of(admin_pb2.DESCRIPTOR.services_by_name["AdminService"])

#: A node that does not answer within this is passed over, if there are others.
_ATTEMPT_TIMEOUT_S: Final = 5.0
READ_TIMEOUT_S: Final = 10.0
_CHANGE_TIMEOUT_S: Final = 30.0
#: A new voter is brought up to date before it votes.
_VOTER_TIMEOUT_S: Final = 60.0
#: Settings that change under every attempt are changed by somebody who does nothing else.
_CONFLICTS_MAX: Final = 5


class AdminCalls:
    def __init__(self, failover: Failover, random_bytes: Callable[[int], bytes]) -> None:
        self._failover = failover
        self._random_bytes = random_bytes

    # -- topics

    async def create_topic(self, request: admin_pb2.CreateTopicRequest) -> admin_pb2.TopicDescription:
        if not request.topic_id:
            identified = admin_pb2.CreateTopicRequest(topic_id=topic_id_from(self._random_bytes(16)))
            identified.MergeFrom(request)
            request = identified
        return (await self._change(_admin("CreateTopic", admin_pb2.CreateTopicResponse), request)).topic

    async def delete_topic(self, topic_id: str) -> None:
        """By id: a request that is sent again must not hit a new topic of the old name."""
        request = admin_pb2.DeleteTopicRequest(topic_id=topic_id)
        await self._change(_admin("DeleteTopic", admin_pb2.DeleteTopicResponse), request)

    async def list_topics(self) -> list[admin_pb2.TopicListing]:
        method = _admin("ListTopics", admin_pb2.ListTopicsResponse)
        return list((await self._read(method, admin_pb2.ListTopicsRequest())).topics)

    async def describe_topic(
        self, name: str, *, timeout_s: float = READ_TIMEOUT_S
    ) -> admin_pb2.TopicDescription:
        method = _admin("DescribeTopic", admin_pb2.DescribeTopicResponse)
        request = admin_pb2.DescribeTopicRequest(name=name)
        return (await self._read(method, request, timeout_s=timeout_s)).topic

    async def create_partitions(
        self, request: admin_pb2.CreatePartitionsRequest
    ) -> admin_pb2.TopicDescription:
        method = _admin("CreatePartitions", admin_pb2.CreatePartitionsResponse)
        if not request.topic_id:
            topic_id = (await self.describe_configs(request.name)).topic_id
            identified = admin_pb2.CreatePartitionsRequest(topic_id=topic_id)
            identified.MergeFrom(request)
            request = identified
        return (await self._change(method, request)).topic

    async def describe_configs(self, topic: str = "") -> admin_pb2.AlterConfigsResponse:
        """What is in force for a topic, or for the cluster, and what a change of that has to name."""
        method = _admin("AlterConfigs", admin_pb2.AlterConfigsResponse)
        return await self._read(method, admin_pb2.AlterConfigsRequest(topic=topic, validate_only=True))

    async def alter_configs(self, request: admin_pb2.AlterConfigsRequest) -> list[admin_pb2.ConfigEntry]:
        """Returns what is in force now.

        Without an epoch: of the settings as they are now. Whoever names one is told when they have changed.
        """
        method = _admin("AlterConfigs", admin_pb2.AlterConfigsResponse)
        if not request.changes:
            return list((await self.describe_configs(request.topic)).configs)
        if request.HasField("config_epoch"):
            return list((await self._change(method, request)).configs)
        for attempts_left in reversed(range(_CONFLICTS_MAX)):
            seen = await self.describe_configs(request.topic)
            based = admin_pb2.AlterConfigsRequest(topic_id=seen.topic_id, config_epoch=seen.config_epoch)
            based.MergeFrom(request)
            try:
                return list((await self._change(method, based)).configs)
            except InvalidUpdateVersion:
                # Said only where no attempt can have been carried out: somebody else was faster.
                if not attempts_left:
                    raise
        raise AssertionError("the last attempt returns or raises")

    # -- the cluster and its quorum

    async def describe_cluster(self) -> admin_pb2.DescribeClusterResponse:
        method = _admin("DescribeCluster", admin_pb2.DescribeClusterResponse)
        return await self._read(method, admin_pb2.DescribeClusterRequest())

    async def describe_quorum(self) -> admin_pb2.DescribeQuorumResponse:
        method = _admin("DescribeQuorum", admin_pb2.DescribeQuorumResponse)
        return await self._read(method, admin_pb2.DescribeQuorumRequest())

    async def add_voter(self, node_id: int, address: str) -> str:
        """Returns the id of its directory."""
        request = admin_pb2.AddVoterRequest(node_id=node_id, address=address)
        response = await self._change(
            _admin("AddVoter", admin_pb2.AddVoterResponse),
            request,
            timeout_s=_VOTER_TIMEOUT_S,
            attempt_timeout_s=_VOTER_TIMEOUT_S,
        )
        return response.directory_id

    async def remove_voter(self, node_id: int, directory_id: str = "") -> None:
        """Without a directory id: whichever it has."""
        request = admin_pb2.RemoveVoterRequest(node_id=node_id, directory_id=directory_id)
        await self._change(_admin("RemoveVoter", admin_pb2.RemoveVoterResponse), request)

    async def transfer_controller(self, node_id: int | None = None) -> int:
        """To the voter that is furthest, if nobody is named; returns who leads now."""
        if node_id is None:
            # Chosen here, once: "somebody else", sent again, would move leadership on and on.
            node_id = _furthest_follower(await self.describe_quorum())
        request = admin_pb2.TransferControllerRequest(node_id=node_id)
        response = await self._change(
            _admin("TransferController", admin_pb2.TransferControllerResponse), request
        )
        return response.controller

    async def update_feature_level(self, level: int = 0) -> int:
        """0: the highest that every node can run on; returns the level in force."""
        request = admin_pb2.UpdateFeatureLevelRequest(level=level)
        response = await self._change(
            _admin("UpdateFeatureLevel", admin_pb2.UpdateFeatureLevelResponse), request
        )
        return response.level

    # -- partitions

    async def elect_preferred_leaders(
        self, request: admin_pb2.ElectPreferredLeadersRequest
    ) -> admin_pb2.ElectPreferredLeadersResponse:
        return await self._change(
            _admin("ElectPreferredLeaders", admin_pb2.ElectPreferredLeadersResponse), request
        )

    async def reassign_partitions(self, request: admin_pb2.ReassignPartitionsRequest) -> None:
        await self._change(_admin("ReassignPartitions", admin_pb2.ReassignPartitionsResponse), request)

    async def list_reassignments(self) -> list[admin_pb2.Reassignment]:
        method = _admin("ListReassignments", admin_pb2.ListReassignmentsResponse)
        return list((await self._read(method, admin_pb2.ListReassignmentsRequest())).reassignments)

    async def recover_partition(
        self, request: admin_pb2.RecoverPartitionRequest
    ) -> admin_pb2.RecoverPartitionResponse:
        """Without the incident in it: out of the one that there is now."""
        method = _admin("RecoverPartition", admin_pb2.RecoverPartitionResponse)
        if not request.partition.topic_id or not request.HasField("leader_epoch"):
            topic = await self.describe_topic(request.partition.topic)
            request = incident_of(topic, request)
        return await self._change(method, request)

    # -- brokers

    async def check_broker_restart(self, broker_id: int) -> admin_pb2.CheckBrokerRestartResponse:
        method = _admin("CheckBrokerRestart", admin_pb2.CheckBrokerRestartResponse)
        return await self._read(method, admin_pb2.CheckBrokerRestartRequest(broker_id=broker_id))

    async def drain_broker(self, broker_id: int, *, cancel: bool = False) -> admin_pb2.DrainBrokerResponse:
        request = admin_pb2.DrainBrokerRequest(broker_id=broker_id, cancel=cancel)
        return await self._change(_admin("DrainBroker", admin_pb2.DrainBrokerResponse), request)

    async def decommission_broker(
        self, broker_id: int, *, cancel: bool = False
    ) -> admin_pb2.DecommissionBrokerResponse:
        request = admin_pb2.DecommissionBrokerRequest(broker_id=broker_id, cancel=cancel)
        return await self._change(_admin("DecommissionBroker", admin_pb2.DecommissionBrokerResponse), request)

    # -- how calls are made

    async def _read(
        self,
        method: Method[Request, Response],
        request: Request,
        *,
        timeout_s: float = READ_TIMEOUT_S,
    ) -> Response:
        return await self._failover.call(
            method,
            request,
            timeout_s=timeout_s,
            attempt_timeout_s=_ATTEMPT_TIMEOUT_S,
            has_effect=False,
        )

    async def _change(
        self,
        method: Method[Request, Response],
        request: Request,
        *,
        timeout_s: float = _CHANGE_TIMEOUT_S,
        attempt_timeout_s: float = _ATTEMPT_TIMEOUT_S,
    ) -> Response:
        return await self._failover.call(
            method, request, timeout_s=timeout_s, attempt_timeout_s=attempt_timeout_s, has_effect=True
        )


def incident_of(
    topic: admin_pb2.TopicDescription, request: admin_pb2.RecoverPartitionRequest
) -> admin_pb2.RecoverPartitionRequest:
    """The request, about the partition as it is described and as it will never be again."""
    number = request.partition.partition
    described = next((each for each in topic.partitions if each.partition == number), None)
    if described is None:
        raise UnknownTopicOrPartition(
            f"topic {topic.name} has partitions 0 to {len(topic.partitions) - 1}, not {number}",
            topic=topic.name,
            partition=number,
        )
    named = admin_pb2.RecoverPartitionRequest(leader_epoch=described.leader_epoch)
    named.partition.topic_id = topic.topic_id
    named.MergeFrom(request)
    return named


def _admin(name: str, response_type: type[Response]) -> Method[Any, Response]:
    method = _ADMIN_METHODS[name]
    assert method.response_type is response_type
    return method


def _furthest_follower(quorum: admin_pb2.DescribeQuorumResponse) -> int:
    followers = [voter for voter in quorum.voters if voter.state == "follower"]
    if not followers:
        raise VoterChangeRefused("no other voter can be reached and is up to date: nobody could take over")
    return max(followers, key=lambda voter: voter.match_index).node_id
