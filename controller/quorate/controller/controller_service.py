"""ControllerService: what brokers, and other controllers, ask of a controller."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable

from quorate.controller.active import ActiveController
from quorate.controller.administration import Administration
from quorate.controller.alter_partition import alter_partition
from quorate.controller.brokers import register_broker, require_broker_epoch
from quorate.controller.decision import Decision
from quorate.controller.departures import PARTITION_CHANGES_PER_BATCH_MAX
from quorate.controller.heartbeats import heartbeat
from quorate.controller.liveness import BrokerLiveness
from quorate.controller.producer_ids import allocate_producer_ids
from quorate.controller.topics import confirm_topics_removed
from quorate.controller.witnesses import heard_in
from quorate.core.clock import Clock
from quorate.core.ids import BrokerEpoch, BrokerId
from quorate.core.logging import get_logger
from quorate.core.transport import Call, Service
from quorate.errors import InvalidRequest, StaleBrokerEpoch
from quorate.metadata.digest import digest_to_bytes
from quorate.metadata.image import BrokerImage, MetadataImage
from quorate.metadata.publisher import MetadataPublisher
from quorate.metadata.records import FEATURE_LEVEL_MAX, FEATURE_LEVEL_MIN
from quorate.rpc.error_detail import detail_from_error
from quorate.v1.controller_pb2 import (
    DESCRIPTOR,
    AdministerRequest,
    AdministerResponse,
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
    AlterPartitionRequest,
    AlterPartitionResponse,
    BrokerSessionRequest,
    BrokerSessionResponse,
    ConfirmTopicsRemovedRequest,
    ConfirmTopicsRemovedResponse,
    CreateOffsetsTopicRequest,
    CreateOffsetsTopicResponse,
    DescribeImageRequest,
    DescribeImageResponse,
    FollowMetadataRequest,
    FollowMetadataResponse,
    RegisterBrokerRequest,
    RegisterBrokerResponse,
)

__all__ = ["ControllerServiceHandlers"]

log = get_logger(__name__)


class ControllerServiceHandlers:
    def __init__(
        self,
        active: ActiveController,
        liveness: BrokerLiveness,
        publisher: MetadataPublisher,
        administration: Administration,
        *,
        clock: Clock,
        session_timeout_ms: int,
        check_leadership: Callable[[], None],
        on_unfenced: Callable[[], None],
        create_offsets_topic: Callable[[CreateOffsetsTopicRequest], Awaitable[CreateOffsetsTopicResponse]],
        partition_changes_per_batch_max: int = PARTITION_CHANGES_PER_BATCH_MAX,
    ) -> None:
        self._active = active
        self._liveness = liveness
        self._publisher = publisher
        self._administration = administration
        self._clock = clock
        self._session_timeout_ms = session_timeout_ms
        self._check_leadership = check_leadership
        self._on_unfenced = on_unfenced
        self._create_topic_of_offsets = create_offsets_topic
        self._changes_max = partition_changes_per_batch_max

    def service(self) -> Service:
        return Service(
            DESCRIPTOR.services_by_name["ControllerService"],
            {
                "RegisterBroker": self._register_broker,
                "BrokerSession": self._broker_session,
                "AlterPartition": self._alter_partition,
                "AllocateProducerIds": self._allocate_producer_ids,
                "ConfirmTopicsRemoved": self._confirm_topics_removed,
                "CreateOffsetsTopic": self._create_offsets_topic,
                "FollowMetadata": self._follow_metadata,
                "Administer": self._administer,
                "DescribeImage": self._describe_image,
            },
            is_internal=True,
        )

    async def _register_broker(self, request: RegisterBrokerRequest, _call: Call) -> RegisterBrokerResponse:
        sessions = self._liveness.sessions
        response = await self._active.change(lambda image, offset: self._register(image, request, offset))
        if self._active.is_active:
            sessions.registered(
                BrokerId(request.broker_id), BrokerEpoch(response.broker_epoch), self._clock.monotonic()
            )
        return response

    def _register(
        self, image: MetadataImage, request: RegisterBrokerRequest, next_offset: int
    ) -> Decision[RegisterBrokerResponse]:
        sessions = self._liveness.sessions
        broker_id = BrokerId(request.broker_id)
        decision = register_broker(
            image,
            request,
            next_offset=next_offset,
            has_live_session=sessions.is_live(broker_id, self._clock.monotonic()),
            heard=sessions.heard_witnesses(broker_id),
            leaving=sessions.leaving(),
            changes_max=self._changes_max,
        )
        if not decision.is_complete:
            # The process before must not come back to life between two pieces.
            sessions.give_up(broker_id, image.brokers[broker_id].broker_epoch)
        return decision

    async def _broker_session(
        self, requests: AsyncIterator[BrokerSessionRequest], _call: Call
    ) -> AsyncGenerator[BrokerSessionResponse, None]:
        session: tuple[BrokerId, BrokerEpoch] | None = None
        try:
            async for request in requests:
                named = BrokerId(request.broker_id), BrokerEpoch(request.broker_epoch)
                if session not in (None, named):
                    raise InvalidRequest("one stream carries the heartbeats of one run of one broker")
                try:
                    answer = await self._heartbeat(request)
                except StaleBrokerEpoch as error:
                    yield BrokerSessionResponse(sequence=request.sequence, error=detail_from_error(error))
                    return
                if answer is None:
                    log.info("abandoned_stream_ended", broker_id=request.broker_id, sequence=request.sequence)
                    return
                if session is None:
                    session = named
                    self._liveness.stream_opened(*session)
                yield answer
        finally:
            if session is not None:
                self._liveness.stream_closed(*session)

    async def _heartbeat(self, request: BrokerSessionRequest) -> BrokerSessionResponse | None:
        """None: the broker has sent a later one since, on another stream."""
        # A process that was paused may believe that it leads although its time is up. The broker's lease
        # depends on this answer, so it is looked at now and not when a timer gets round to it (rule 37).
        self._check_leadership()
        was_fenced = False

        def decide(image: MetadataImage, _offset: int) -> Decision[BrokerSessionResponse | None]:
            nonlocal was_fenced
            broker = require_broker_epoch(image, request.broker_id, request.broker_epoch)
            was_fenced = was_fenced or broker.is_fenced
            return self._decide_heartbeat(image, broker, request)

        response = await self._active.change(decide, is_leadership_sure=True)
        if was_fenced and response is not None and not response.is_fenced:
            # More partitions may have waited for it than one batch holds.
            self._on_unfenced()
        return response

    def _decide_heartbeat(
        self, image: MetadataImage, broker: BrokerImage, request: BrokerSessionRequest
    ) -> Decision[BrokerSessionResponse | None]:
        sessions = self._liveness.sessions
        if not sessions.hear(broker.broker_id, request.sequence):
            return Decision((), None)
        sessions.touch(
            broker.broker_id,
            broker.broker_epoch,
            self._clock.monotonic(),
            metadata_offset=request.metadata_offset,
            wants_shutdown=request.wants_shutdown,
            heard=heard_in(request),
        )
        return heartbeat(
            image,
            request,
            state_offset=sessions.state_offset(broker.broker_id),
            others_offset=sessions.others_offset(broker.broker_id),
            session_timeout_ms=self._session_timeout_ms,
            is_given_up=sessions.is_given_up(broker.broker_id),
            leaving=sessions.leaving(),
            changes_max=self._changes_max,
        )

    async def _alter_partition(self, request: AlterPartitionRequest, _call: Call) -> AlterPartitionResponse:
        sessions = self._liveness.sessions
        return await self._active.change(
            lambda image, _offset: alter_partition(image, request, leaving=sessions.leaving())
        )

    async def _allocate_producer_ids(
        self, request: AllocateProducerIdsRequest, _call: Call
    ) -> AllocateProducerIdsResponse:
        return await self._active.change(lambda image, _offset: allocate_producer_ids(image, request))

    async def _confirm_topics_removed(
        self, request: ConfirmTopicsRemovedRequest, _call: Call
    ) -> ConfirmTopicsRemovedResponse:
        return await self._active.change(lambda image, _offset: confirm_topics_removed(image, request))

    async def _create_offsets_topic(
        self, request: CreateOffsetsTopicRequest, _call: Call
    ) -> CreateOffsetsTopicResponse:
        return await self._create_topic_of_offsets(request)

    async def _follow_metadata(
        self, requests: AsyncIterator[FollowMetadataRequest], _call: Call
    ) -> AsyncGenerator[FollowMetadataResponse, None]:
        async for request in requests:
            log.info("metadata_followed", broker_id=request.broker_id, from_offset=request.from_offset)
            async for response in self._publisher.follow(request.from_offset):
                yield response

    async def _administer(self, request: AdministerRequest, _call: Call) -> AdministerResponse:
        return AdministerResponse(response=await self._administration.call(request.method, request.request))

    async def _describe_image(self, _request: DescribeImageRequest, _call: Call) -> DescribeImageResponse:
        image = self._publisher.image
        return DescribeImageResponse(
            offset=image.offset,
            digest=digest_to_bytes(image.digest).hex(),
            feature_level_min=FEATURE_LEVEL_MIN,
            feature_level_max=FEATURE_LEVEL_MAX,
        )
