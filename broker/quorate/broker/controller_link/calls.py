"""What a registered broker asks of the active controller, each with its name and epoch on it (rule 2)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from quorate.broker.controller_link.link import ControllerLink
from quorate.broker.controller_link.registration import Registered
from quorate.core.clock import Clock
from quorate.core.ids import BrokerEpoch, TopicId
from quorate.core.transport import method_of
from quorate.errors import BrokerFenced
from quorate.metadata.admin_forwarding import ADMINISTER, ATTEMPT_TIMEOUT_S, has_effect
from quorate.v1 import controller_pb2
from quorate.v1.controller_pb2 import (
    AdministerRequest,
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
    AlterPartitionRequest,
    AlterPartitionResponse,
    ConfirmTopicsRemovedRequest,
    ConfirmTopicsRemovedResponse,
    CreateOffsetsTopicRequest,
    CreateOffsetsTopicResponse,
)

__all__ = ["ControllerCalls"]

_CONTROLLER: Final = controller_pb2.DESCRIPTOR.services_by_name["ControllerService"]
_ALTER_PARTITION: Final = method_of(
    _CONTROLLER, "AlterPartition", AlterPartitionRequest, AlterPartitionResponse
)
_ALLOCATE_PRODUCER_IDS: Final = method_of(
    _CONTROLLER, "AllocateProducerIds", AllocateProducerIdsRequest, AllocateProducerIdsResponse
)
_CONFIRM_TOPICS_REMOVED: Final = method_of(
    _CONTROLLER, "ConfirmTopicsRemoved", ConfirmTopicsRemovedRequest, ConfirmTopicsRemovedResponse
)
_CREATE_OFFSETS_TOPIC: Final = method_of(
    _CONTROLLER, "CreateOffsetsTopic", CreateOffsetsTopicRequest, CreateOffsetsTopicResponse
)

_TIMEOUT_S: Final = 10.0


class ControllerCalls:
    """For whoever is made before the broker has a link and an epoch: until then, calls are refused."""

    def __init__(
        self, *, clock: Clock, link: ControllerLink | None = None, registered: Registered | None = None
    ) -> None:
        self._clock = clock
        self._link = link
        self._registered = registered

    def linked(self, link: ControllerLink) -> None:
        self._link = link

    def registered_as(self, registered: Registered) -> None:
        self._registered = registered

    def broker_epoch(self) -> BrokerEpoch:
        return self._self().broker_epoch

    def _to_controller(self) -> ControllerLink:
        if self._link is None:
            raise BrokerFenced("this broker is starting")
        return self._link

    def _self(self) -> Registered:
        if self._registered is None:
            raise BrokerFenced("this broker is starting, and not registered yet")
        return self._registered

    async def alter_partition(self, request: AlterPartitionRequest) -> AlterPartitionResponse:
        """Sent once, unless it is certain that nothing was done: the leader has to know of each attempt.

        An attempt without an answer may still be carried out, even after a later one was refused. If it were
        repeated here, the refusal would look as if it spoke for both, and the leader would take its proposal
        back too early (rule 22).
        """
        own = self._self()
        request.broker_id = own.broker_id
        request.broker_epoch = own.broker_epoch
        link = self._to_controller()
        return await link.call(_ALTER_PARTITION, request, timeout_s=_TIMEOUT_S, is_repeatable=False)

    async def confirm_topics_removed(self, topic_ids: Sequence[TopicId]) -> None:
        """Nothing of these deleted topics is left on this broker's disk (rule 42)."""
        own = self._self()
        request = ConfirmTopicsRemovedRequest(
            broker_id=own.broker_id, broker_epoch=own.broker_epoch, topic_ids=topic_ids
        )
        await self._to_controller().call(_CONFIRM_TOPICS_REMOVED, request, timeout_s=_TIMEOUT_S)

    async def allocate_producer_ids(self) -> range:
        """Ids that nobody else has or will get."""
        own = self._self()
        request = AllocateProducerIdsRequest(broker_id=own.broker_id, broker_epoch=own.broker_epoch)
        block = await self._to_controller().call(_ALLOCATE_PRODUCER_IDS, request, timeout_s=_TIMEOUT_S)
        return range(block.first_producer_id, block.first_producer_id + block.count)

    async def create_offsets_topic(self, topic_id: TopicId) -> None:
        """Unless it exists. ``topic_id``: the one that it gets, drawn for this request (rule 43)."""
        own = self._self()
        request = CreateOffsetsTopicRequest(
            broker_id=own.broker_id, broker_epoch=own.broker_epoch, topic_id=topic_id
        )
        await self._to_controller().call(_CREATE_OFFSETS_TOPIC, request, timeout_s=_TIMEOUT_S)

    async def administer(self, method: str, request: bytes, deadline: float) -> bytes:
        """For ``AdminForwarding``: a call of AdminService, passed on to the active controller."""
        response = await self._to_controller().call(
            ADMINISTER,
            AdministerRequest(method=method, request=request),
            timeout_s=deadline - self._clock.monotonic(),
            attempt_timeout_s=ATTEMPT_TIMEOUT_S,
            has_effect=has_effect(method),
        )
        return response.response
