"""The broker of a node: from its data directory to the services that it offers, and back.

A start goes through steps that each rest on the one before (rules 30 and 36): take the directory; recover
every log; note that a process has begun; register, and say how the last one ended; note the epoch that this
gave; follow the metadata until it tells of this registration; take up the part that it gives each replica;
ask to be unfenced. Logs are recovered before the registration, not after, because what the broker says there
includes whether they are intact.

A stop goes back: leaders are moved by the controller while everything still serves (``leave``), then logs are
closed, and a marker says that all of it is on the device (``close``).
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from typing import Final, NoReturn

from quorate.broker.census import ReplicaCensus
from quorate.broker.controller_link.calls import ControllerCalls
from quorate.broker.controller_link.lease import Lease
from quorate.broker.controller_link.link import ControllerLink
from quorate.broker.controller_link.producer_ids import ProducerIds
from quorate.broker.controller_link.registration import Registered, Registration
from quorate.broker.controller_link.session import BrokerSession, SessionTiming
from quorate.broker.describing import ReplicaDescriber
from quorate.broker.directory.broker_directory import BrokerDirectory
from quorate.broker.directory.deletions import LogDeletions
from quorate.broker.directory.high_watermarks import HighWatermarkCheckpoint
from quorate.broker.groups.coordinator import GroupCoordinator
from quorate.broker.groups.leader_calls import LeaderCalls
from quorate.broker.groups.service import GroupService
from quorate.broker.handlers.broker_service import BrokerService
from quorate.broker.hosted import Hosted
from quorate.broker.metrics.broker import BrokerMetrics
from quorate.broker.metrics.group import GroupMetrics
from quorate.broker.partition_ends import PartitionEnds
from quorate.broker.readiness import Readiness
from quorate.broker.removed_topics import RemovedTopics
from quorate.broker.replica.isr_alterations import IsrAlterations
from quorate.broker.replicas import Replicas, log_config_of
from quorate.broker.replication.fetchers import ReplicaFetchers
from quorate.broker.replication.server import ReplicationServer
from quorate.broker.replication.throttle import ReplicationThrottle
from quorate.core.clock import Clock
from quorate.core.config import NodeConfig
from quorate.core.disk import Disk
from quorate.core.ids import LeaderEpoch, ReplicaKey
from quorate.core.logging import get_logger
from quorate.core.metrics import MetricSource
from quorate.core.transport import Service, Transport
from quorate.metadata.admin_forwarding import AdminForwarding
from quorate.metadata.changes import MetadataDelta
from quorate.metadata.follower import MetadataFollower
from quorate.metadata.image import MetadataImage
from quorate.metadata.leader_descriptions import LeaderDescriptions
from quorate.metadata.topic_settings import throttled_rate
from quorate.storage import LogContext, OpenFiles, RecentBatches
from quorate.v1 import replica_pb2

__all__ = ["Broker"]

log = get_logger(__name__)

#: Descriptors kept for sealed segments; each active segment has one of its own.
_SEALED_FILES_OPEN_MAX: Final = 512
_SEED_BYTES: Final = 16
#: A checkpoint that is older makes a restarted replica catch up on its high watermark, nothing else.
_HIGH_WATERMARK_INTERVAL_S: Final = 5.0
#: without it a copy that was made during the last interval is not told apart, and nothing else is lost
_LAST_DEVICE_WITNESS_S_MAX: Final = 1.0


class Broker:
    """``open`` makes one; then its services are served, and ``run`` is run."""

    def __init__(
        self,
        config: NodeConfig,
        directory: BrokerDirectory,
        *,
        clock: Clock,
        disk: Disk,
        transport: Transport,
        random_bytes: Callable[[int], bytes],
    ) -> None:
        """For ``open``."""
        self._config = config
        self._directory = directory
        self._clock = clock
        self._transport = transport
        self._random_bytes = random_bytes
        self._rng = random.Random(int.from_bytes(random_bytes(_SEED_BYTES), "big"))
        self._lease = Lease(clock, duration_s=config.broker_lease_ms / 1000)
        self._calls = ControllerCalls(clock=clock)
        self._throttle = ReplicationThrottle(clock)
        self._fetchers = ReplicaFetchers(
            transport,
            config.node_id,
            self._calls.broker_epoch,
            clock=clock,
            rng=self._rng,
            throttle=self._throttle,
        )
        self._removed_topics = RemovedTopics(
            config.node_id,
            directory.logs,
            clock=clock,
            confirm=self._calls.confirm_topics_removed,
            is_creating_any_of=lambda topic_id: self._replicas.is_creating_any_of(topic_id),
        )
        self._deletions = LogDeletions(
            directory.logs,
            clock=clock,
            delay_s=config.file_delete_delay_ms / 1000,
            on_deleted=lambda _: self._removed_topics.log_deleted(),
        )
        self._isr_alterations = IsrAlterations(
            self._calls.alter_partition,
            clock=clock,
            rng=self._rng,
            led=lambda: self._replicas.led(),
            replica_lag_s=config.replica_lag_time_max_ms / 1000,
        )
        self._checkpoint = HighWatermarkCheckpoint(disk, config.data_dir, directory.logs)
        self._replicas = Replicas(
            config,
            clock=clock,
            logs=directory.logs,
            fetchers=self._fetchers,
            deletions=self._deletions,
            on_isr_wish=self._isr_alterations.wish,
            on_failure=self._report_damaged,
        )
        self._hosted = Hosted(config, config.node_id, self._replicas, self._lease)
        self._producer_ids = ProducerIds(self._calls.allocate_producer_ids, clock=clock, rng=self._rng)
        self._service = BrokerService(
            config, self._hosted, clock, next_producer_id=self._producer_ids.next_id
        )
        self._partition_ends = PartitionEnds(self._hosted.find_by_id, self._lease)
        self._groups = GroupService(
            config,
            self._hosted,
            LeaderCalls(
                transport, self._partition_ends, lambda: self._hosted.image, broker_id=config.node_id
            ),
            clock=clock,
            rng=self._rng,
            random_bytes=random_bytes,
            create_offsets_topic=self._calls.create_offsets_topic,
        )
        census = ReplicaCensus(config.node_id)
        self.readiness = Readiness(config.node_id, self._hosted, census)
        #: what it tells of itself in numbers
        self.metrics: Sequence[MetricSource] = (
            BrokerMetrics(self._hosted, census),
            GroupMetrics(self._groups.coordinator, self._groups.lag_watch),
        )
        #: a round of the maintenance has ended since the last pass of compaction began
        self._maintained = asyncio.Event()
        #: set once the broker is not fenced any more
        self.is_ready = asyncio.Event()
        # From ``run`` on.
        self._link: ControllerLink | None = None
        self._registered: Registered | None = None
        self._session: BrokerSession | None = None

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
    ) -> Broker:
        """Take the data directory; what is in it is recovered by ``run``."""
        context = LogContext(
            disk,
            clock,
            OpenFiles(disk, files_max=_SEALED_FILES_OPEN_MAX),
            on_fatal,
            recent=RecentBatches(config.log_recent_bytes),
        )
        directory = await BrokerDirectory.open(
            context,
            config.data_dir,
            node_id=config.node_id,
            cluster_id=config.cluster_id,
            random_bytes=random_bytes,
        )
        return cls(config, directory, clock=clock, disk=disk, transport=transport, random_bytes=random_bytes)

    @property
    def replicas(self) -> Replicas:
        """For whoever looks on: drills and the simulator."""
        return self._replicas

    @property
    def groups(self) -> GroupCoordinator:
        """As above."""
        return self._groups.coordinator

    # -- what it offers

    def services(self) -> Sequence[Service]:
        find = self._hosted.find_by_id
        describer = ReplicaDescriber(find)
        replication = ReplicationServer(
            self._config.node_id,
            find,
            clock=self._clock,
            response_bytes_max=self._config.replica_fetch_response_max_bytes,
            partition_bytes_max=self._config.replica_fetch_max_bytes,
        )
        forwarding = AdminForwarding(
            self._calls.administer,
            LeaderDescriptions(self._transport, lambda: self._hosted.image.brokers),
            clock=self._clock,
            random_bytes=self._random_bytes,
        )
        return [
            self._service.service,
            self._groups.service,
            forwarding.service(),
            Service(
                replica_pb2.DESCRIPTOR.services_by_name["ReplicaService"],
                {
                    "DescribeLogEnds": describer.describe_log_ends,
                    "DescribeReplicas": describer.describe_replicas,
                    "DescribeEnds": self._partition_ends.describe,
                    "Replicate": replication,
                },
                is_internal=True,
            ),
        ]

    # -- from start to stop

    async def run(self, own_address: str) -> None:
        """Until cancelled; raises what must stop the node. ``own_address``: where this node listens."""
        config = self._config
        link = self._link = self._link_to_controllers(own_address)
        self._calls.linked(link)
        await self._recover()
        registration = Registration(
            link,
            self._directory,
            broker_id=config.node_id,
            address=str(config.advertised_address or own_address),
            rack=config.node_rack,
            clock=self._clock,
            rng=self._rng,
            random_bytes=self._random_bytes,
        )
        registered = self._registered = await registration.register()
        self._checkpoint.forget_shortened()
        self._calls.registered_as(registered)
        follower = MetadataFollower(
            self._transport,
            self._controller_addresses(own_address),
            clock=self._clock,
            broker_id=config.node_id,
            on_image=self._on_image,
            rng=self._rng,
        )
        session = self._session = BrokerSession(
            link,
            registered,
            self._lease,
            timing=SessionTiming.of(config),
            clock=self._clock,
            metadata_offset=lambda: follower.image.offset,
            advance_cache_witness=self._directory.advance_cache_witness,
            device_witness=lambda: self._directory.device_witness,
            is_unusable=self._replicas.is_unusable,
        )
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(follower.run(), name="metadata")
            tasks.create_task(session.run(), name="session")
            tasks.create_task(self._replicas.run(), name="replicas")
            tasks.create_task(self._fetchers.run(), name="replication")
            tasks.create_task(self._isr_alterations.run(), name="isr-alterations")
            tasks.create_task(self._producer_ids.run(), name="producer-ids")
            tasks.create_task(self._deletions.run(), name="deletions")
            tasks.create_task(self._removed_topics.run(), name="removed-topics")
            tasks.create_task(self._groups.run(), name="groups")
            tasks.create_task(self._maintain(), name="maintenance")
            tasks.create_task(self._compact(), name="compaction")
            tasks.create_task(self._checkpoint_high_watermarks(), name="high-watermarks")
            tasks.create_task(self._advance_device_witness(), name="device-witness")
            await follower.wait_for_offset(registered.broker_epoch)
            session.want_unfence()
            await session.unfenced()
            self.is_ready.set()

    async def leave(self) -> None:
        """Let the controller move leaders away, while everything still serves (rule 36)."""
        if self._session is not None:
            await self._tell_last_device_witness()
            await self._session.shut_down(self._config.controlled_shutdown_timeout_ms / 1000)

    async def _tell_last_device_witness(self) -> None:
        """The last heartbeats carry it: nobody hears of a later one before the next start.

        A device that stalls is not waited for: the broker would lead on until it is killed.
        """
        advancing = asyncio.create_task(self._directory.advance_device_witness(), name="last-device-witness")
        stalling = asyncio.create_task(self._clock.sleep(_LAST_DEVICE_WITNESS_S_MAX), name="device-stalls")
        try:
            await asyncio.wait([advancing, stalling], return_when=asyncio.FIRST_COMPLETED)
            if advancing.done():
                advancing.result()
        finally:
            advancing.cancel()
            stalling.cancel()

    def release_waiting(self) -> None:
        """Answer the fetches that wait, so that a stop need not wait for them."""
        self._service.release_waiting()
        self._replicas.stop()

    async def close(self) -> bool:
        """Sync and close every log. True if the next start need not recover anything."""
        self.release_waiting()
        await self._groups.close()
        for replica in self._replicas:
            await replica.wait_stopped()
        if self._registered is not None:
            self._checkpoint.save(self._replicas.high_watermarks())
        is_clean = await self._directory.close()
        if self._link is not None:
            await self._link.close()
        log.info("data_directory_closed", path=self._config.data_dir, clean=is_clean)
        return is_clean

    async def _recover(self) -> None:
        """With this node's own settings; those of the topics follow with the metadata."""
        defaults = log_config_of(self._config, self._config.topic_defaults)
        await self._directory.recover_logs(lambda _: defaults)
        await self._checkpoint.read()
        self._directory.note_shortened(self._checkpoint.find_shortened())
        self._replicas.recovered(self._checkpoint.load(), self._directory.failures)

    async def _maintain(self) -> NoReturn:
        """Retention and recovery points, now and then."""
        while True:
            await self._clock.sleep(self._config.log_retention_check_interval_ms / 1000)
            await self._directory.logs.maintain(
                deletable_below=self._replicas.expire, on_damage=self._replicas.found_damaged
            )
            self._maintained.set()

    async def _compact(self) -> NoReturn:
        """After a round of the maintenance, which makes room, and beside the next ones: it may take long.

        One pass over all logs at a time; rounds that go by meanwhile ask for one more, not for as many.
        """
        while True:
            await self._maintained.wait()
            self._maintained.clear()
            await self._directory.logs.compact(
                high_watermark_of=self._replicas.high_watermark_of, on_damage=self._replicas.found_damaged
            )

    async def _checkpoint_high_watermarks(self) -> NoReturn:
        while True:
            await self._clock.sleep(_HIGH_WATERMARK_INTERVAL_S)
            self._checkpoint.save(self._replicas.high_watermarks())

    async def _advance_device_witness(self) -> NoReturn:
        while True:
            await self._directory.advance_device_witness()
            await self._clock.sleep(self._config.broker_device_witness_interval_ms / 1000)

    # -- the metadata

    def _on_image(self, image: MetadataImage, delta: MetadataDelta) -> None:
        """Nothing before this process's own registration counts: it speaks about the one before it."""
        registered = self._registered
        assert registered is not None
        if image.offset < registered.broker_epoch:
            return
        is_first = delta.before.offset < registered.broker_epoch
        self._throttle.set_rate(throttled_rate(image))
        self._hosted.image_changed(image)
        self._replicas.apply(image, None if is_first else delta)
        self._removed_topics.image_changed(image)
        self._groups.image_changed(None if is_first else delta)
        # After all else: from here on nothing that was decided up to there can be denied (rule 37).
        self._lease.metadata_applied(image.offset)

    def _report_damaged(self, replica: ReplicaKey, leader_epoch: LeaderEpoch) -> None:
        if self._session is not None:
            self._session.report_damaged(replica, leader_epoch)

    # -- the controller

    def _controller_addresses(self, own_address: str) -> list[str]:
        """This node's own, where it is one, is where it really listens."""
        return [
            own_address if voter.node_id == self._config.node_id else str(voter.address)
            for voter in self._config.controller_voters
        ]

    def _link_to_controllers(self, own_address: str) -> ControllerLink:
        addresses = self._controller_addresses(own_address)
        return ControllerLink(self._transport, addresses, clock=self._clock, rng=self._rng)
