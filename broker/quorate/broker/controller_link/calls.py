"""What a registered broker asks of the active controller, each with its name and epoch on it (rule 2)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from quorate.broker.controller_link.link import ControllerLink
from quorate.broker.controller_link.registration import Registered
from quorate.core.clock import Clock
from quorate.core.ids import TopicId
from quorate.core.transport import method_of
from quorate.metadata.admin_forwarding import ADMINISTER, ATTEMPT_TIMEOUT_S, Administer
from quorate.v1 import controller_pb2
from quorate.v1.controller_pb2 import (
    AdministerRequest,
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
    AlterPartitionRequest,
    AlterPartitionResponse,
    ConfirmTopicsRemovedRequest,
    ConfirmTopicsRemovedResponse,
)

__all__ = ["ControllerCalls", "administer_through"]

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

_TIMEOUT_S: Final = 10.0


class ControllerCalls:
    def __init__(self, link: ControllerLink, registered: Registered) -> None:
        self._link = link
        self._registered = registered

    async def alter_partition(self, request: AlterPartitionRequest) -> AlterPartitionResponse:
        """Sent once, unless it is certain that nothing was done: the leader has to know of each attempt.

        An attempt without an answer may still be carried out, even after a later one was refused. If it were
        repeated here, the refusal would look as if it spoke for both, and the leader would take its proposal
        back too early (rule 22).
        """
        request.broker_id = self._registered.broker_id
        request.broker_epoch = self._registered.broker_epoch
        return await self._link.call(_ALTER_PARTITION, request, timeout_s=_TIMEOUT_S, is_repeatable=False)

    async def confirm_topics_removed(self, topic_ids: Sequence[TopicId]) -> None:
        """Nothing of these deleted topics is left on this broker's disk (rule 42)."""
        request = ConfirmTopicsRemovedRequest(
            broker_id=self._registered.broker_id,
            broker_epoch=self._registered.broker_epoch,
            topic_ids=topic_ids,
        )
        await self._link.call(_CONFIRM_TOPICS_REMOVED, request, timeout_s=_TIMEOUT_S)

    async def allocate_producer_ids(self) -> range:
        """Ids that nobody else has or will get."""
        request = AllocateProducerIdsRequest(
            broker_id=self._registered.broker_id, broker_epoch=self._registered.broker_epoch
        )
        block = await self._link.call(_ALLOCATE_PRODUCER_IDS, request, timeout_s=_TIMEOUT_S)
        return range(block.first_producer_id, block.first_producer_id + block.count)


def administer_through(link: ControllerLink, clock: Clock) -> Administer:
    """For ``AdminForwarding``: calls of AdminService, passed on to the active controller."""

    async def administer(method: str, request: bytes, deadline: float) -> bytes:
        response = await link.call(
            ADMINISTER,
            AdministerRequest(method=method, request=request),
            timeout_s=deadline - clock.monotonic(),
            attempt_timeout_s=ATTEMPT_TIMEOUT_S,
        )
        return response.response

    return administer
