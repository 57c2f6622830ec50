"""The controller of a node: its voter in the quorum, its image, and the services that work on them."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from typing import Final, NoReturn

from quorate.controller.active import ActiveController
from quorate.controller.administration import Administration
from quorate.controller.controller_service import ControllerServiceHandlers
from quorate.controller.departures import PARTITION_CHANGES_PER_BATCH_MAX
from quorate.controller.duties import Duties, found_metadata
from quorate.controller.forwarding import AdministeringNode
from quorate.controller.internal_topics import create_offsets_topic
from quorate.controller.liveness import BrokerLiveness, LivenessSettings
from quorate.controller.log_ends import LogEnds
from quorate.controller.quorum_administration import QuorumAdministration
from quorate.controller.state_machine import ImageStateMachine
from quorate.core.clock import Clock
from quorate.core.config import NodeConfig
from quorate.core.disk import Disk
from quorate.core.instruments import Histogram
from quorate.core.transport import Service, Transport
from quorate.errors import NotFounded
from quorate.metadata.admin_forwarding import AdminForwarding
from quorate.metadata.image import MetadataImage
from quorate.metadata.leader_descriptions import LeaderDescriptions
from quorate.metadata.publisher import MetadataPublisher
from quorate.metadata.raft.entries import Term
from quorate.metadata.raft.quorum import Quorum
from quorate.metadata.raft.quorum_config import quorum_config_of
from quorate.v1.controller_pb2 import CreateOffsetsTopicRequest, CreateOffsetsTopicResponse

__all__ = ["Controller"]

_SEED_BYTES: Final = 16
#: after so many election time-outs without a leader the metadata streams end (rule 40)
_SILENT_ELECTION_TIMEOUTS: Final = 2


class Controller:
    """``open`` makes one; then its services are served, and ``run`` is run."""

    def __init__(
        self,
        config: NodeConfig,
        quorum: Quorum,
        publisher: MetadataPublisher,
        *,
        clock: Clock,
        transport: Transport,
        random_bytes: Callable[[int], bytes],
        on_fatal: Callable[[str], NoReturn],
        partition_changes_per_batch_max: int,
    ) -> None:
        """For ``open``."""
        self._config = config
        self._clock = clock
        self._quorum = quorum
        self._publisher = publisher
        self._active = ActiveController(
            quorum,
            clock=clock,
            on_begin=self._begin,
            on_appended=lambda image: self._liveness.sessions.image_changed(image),
            on_fatal=on_fatal,
            leader_address=self._leader_address,
        )
        self._liveness = BrokerLiveness(
            self._active,
            LivenessSettings(
                session_timeout_s=config.broker_session_timeout_ms / 1000,
                heartbeat_interval_s=config.broker_heartbeat_interval_ms / 1000,
                probes=config.controller_probe_enable,
                partition_changes_per_batch_max=partition_changes_per_batch_max,
            ),
            clock=clock,
            transport=transport,
        )
        self._duties = Duties(
            self._active,
            self._liveness.sessions,
            clock,
            interval_s=config.leader_imbalance_check_interval_ms / 1000,
            offsets_topic_replication_factor=config.groups.offsets_topic_replication_factor,
            partition_changes_per_batch_max=partition_changes_per_batch_max,
        )
        self._rng = random.Random(int.from_bytes(random_bytes(_SEED_BYTES), "big"))
        administration = Administration(
            self._active,
            QuorumAdministration(
                self._active,
                quorum,
                publisher,
                transport=transport,
                clock=clock,
                silence_s_max=quorum_config_of(config).timing.election_timeout_max_s,
            ),
            LogEnds(transport),
            clock=clock,
            rng=self._rng,
            default_partition_count=config.num_partitions,
            is_heard=self._liveness.sessions.is_heard,
        )
        self._service = ControllerServiceHandlers(
            self._active,
            self._liveness,
            publisher,
            administration,
            clock=clock,
            session_timeout_ms=config.broker_session_timeout_ms,
            check_leadership=quorum.check_leadership,
            on_unfenced=self._duties.elect_soon,
            create_offsets_topic=self._create_offsets_topic,
            partition_changes_per_batch_max=partition_changes_per_batch_max,
        )
        self._administering = AdministeringNode(
            transport,
            clock,
            controller_address=self._controller_address,
            administer_here=administration.call,
            own_address=quorum_config_of(config).own_address,
        )
        self._forwarding = AdminForwarding(
            self._administering.administer,
            LeaderDescriptions(transport, lambda: publisher.image.brokers),
            clock=clock,
            random_bytes=random_bytes,
        )

    @classmethod
    async def open(
        cls,
        config: NodeConfig,
        *,
        clock: Clock,
        disk: Disk,
        transport: Transport,
        random_bytes: Callable[[int], bytes],
        on_fatal: Callable[[str], NoReturn],
        partition_changes_per_batch_max: int = PARTITION_CHANGES_PER_BATCH_MAX,
    ) -> Controller:
        """Recover the voter's directory; ``QuorumDamaged`` where it must not be used."""
        publisher = MetadataPublisher(clock)
        state_machine = ImageStateMachine(publisher)
        quorum = await Quorum.open(
            config=quorum_config_of(config),
            clock=clock,
            disk=disk,
            transport=transport,
            random_bytes=random_bytes,
            on_fatal=on_fatal,
            state_machine=state_machine,
        )
        controller = cls(
            config,
            quorum,
            publisher,
            clock=clock,
            transport=transport,
            random_bytes=random_bytes,
            on_fatal=on_fatal,
            partition_changes_per_batch_max=partition_changes_per_batch_max,
        )
        state_machine.tell(controller._active)
        return controller

    def services(self) -> Sequence[Service]:
        return [*self._quorum.services(), self._service.service(), self._forwarding.service()]

    async def run(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._quorum.run(), name="quorum")
            tasks.create_task(self._liveness.run(), name="broker-liveness")
            tasks.create_task(self._duties.run(), name="controller-duties")
            tasks.create_task(self._watch_for_leader(), name="watch-for-leader")

    async def close(self) -> None:
        """Hand leadership over, if this node has it, and let the directory go."""
        await self._quorum.close()
        self._publisher.stop_serving()
        await self._administering.close()

    @property
    def is_active(self) -> bool:
        """Whether this one decides at the moment, as far as it knows."""
        return self._active.is_active

    @property
    def term(self) -> Term:
        return self._quorum.status.term

    @property
    def commit_seconds(self) -> Histogram:
        """How long changes of the metadata took from their decision here until they were committed."""
        return self._active.commit_seconds

    @property
    def image(self) -> MetadataImage:
        """As far as it is committed."""
        return self._publisher.image

    @property
    def hears_leader(self) -> bool:
        """Whether there is somebody who decides, as far as this one can tell."""
        election_timeout_s = self._config.controller_quorum_election_timeout_ms / 1000
        return self._quorum.heard_leader_within(election_timeout_s * _SILENT_ELECTION_TIMEOUTS)

    def _begin(self, image: MetadataImage) -> None:
        """A new controller knows nothing about who was heard when."""
        self._liveness.sessions.start_all_afresh(image, self._clock.monotonic())
        cluster_id = self._quorum.status.cluster_id
        assert cluster_id is not None
        self._active.change_unattended(lambda image, _offset: found_metadata(image, cluster_id=cluster_id))
        # The one before may have got no further than half of what it was about.
        self._duties.elect_soon()

    async def _create_offsets_topic(self, request: CreateOffsetsTopicRequest) -> CreateOffsetsTopicResponse:
        return await self._active.change(
            lambda image, offset: create_offsets_topic(
                image, request, config=self._config.groups, next_offset=offset, rng=self._rng
            )
        )

    def _controller_address(self) -> str | None:
        status = self._quorum.status
        if not status.is_running:
            raise NotFounded(status.waiting_for or "this controller has just started")
        return self._leader_address()

    def _leader_address(self) -> str | None:
        leader = self._quorum.status.leader
        return None if leader is None else leader.address

    async def _watch_for_leader(self) -> None:
        """End the metadata streams of a controller that may be cut off (rule 40)."""
        election_timeout_s = self._config.controller_quorum_election_timeout_ms / 1000
        while True:
            if self.hears_leader:
                self._publisher.resume()
            elif self._publisher.is_serving:
                self._publisher.stop_serving()
            await self._clock.sleep(election_timeout_s / 4)
