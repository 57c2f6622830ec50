"""Administration, on the application's event loop: topics, groups, brokers, partitions, the quorum.

Each request names the state that it wants, so it is sent again, to another node, when an answer is lost; what
that takes is the business of `AdminCalls`. Here answers become values, and names become what the wire wants.

Any broker answers. From the first call on the brokers of the cluster are known, and asked when those that
were named as ``bootstrap`` are gone. A call goes on until its time is up (ten seconds for a question, thirty
for a change), also while nobody answers at all.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import Self

from quorate.client.admin.answers import (
    ConfigValue,
    assignments_of,
    cluster_from,
    config_from,
    config_text,
    configs_of,
    election_from,
    name_of,
    partition_from,
    quorum_from,
    reassignment_from,
    recovery_from,
    replicas_of,
    restart_check_from,
    topic_from,
)
from quorate.client.admin.group_types import CommittedOffset, GroupDescription, GroupListing, OffsetReset
from quorate.client.admin.groups import GROUPS_TIMEOUT_S, GroupCalls, ResetTo
from quorate.client.admin.types import (
    ClusterDescription,
    ConfigEntry,
    DecommissionProgress,
    ElectionResult,
    ListedOffset,
    QuorumDescription,
    Reassignment,
    RecoveryResult,
    RestartCheck,
    TopicDescription,
    TopicListing,
)
from quorate.client.admin_calls import READ_TIMEOUT_S, AdminCalls
from quorate.client.arguments import check_integer, check_integer_or_none, check_text, check_topic_argument
from quorate.client.bootstrap import parse_bootstrap
from quorate.client.cluster import ClusterView
from quorate.client.failover import Failover
from quorate.client.from_message import from_message
from quorate.client.groups.offsets import OffsetAndMetadata
from quorate.client.listed_offsets import OFFSETS_TIMEOUT_S, OffsetAt, list_offsets
from quorate.client.quorum_objections import quorum_objections
from quorate.client.transport import client_transport
from quorate.core.clock import Clock, SystemClock
from quorate.core.ids import TopicPartition
from quorate.core.transport import Transport
from quorate.errors import InvalidRequest
from quorate.v1 import admin_pb2

__all__ = ["AsyncAdmin"]


class AsyncAdmin:
    """Use as an asynchronous context manager, or close it."""

    def __init__(
        self,
        bootstrap: str | Sequence[str],
        *,
        transport: Transport | None = None,
        clock: Clock | None = None,
        rng: random.Random | None = None,
    ) -> None:
        """The transport, clock and rng are for simulations."""
        self._clock = clock or SystemClock()
        self._rng = rng or random.Random()
        self._cluster = ClusterView(
            transport or client_transport(), parse_bootstrap(bootstrap), clock=self._clock, rng=self._rng
        )
        self._groups = GroupCalls(self._cluster, clock=self._clock, rng=self._rng)
        failover = Failover(self._cluster, clock=self._clock, rng=self._rng, is_patient=True)
        self._calls = AdminCalls(failover, os.urandom if rng is None else rng.randbytes)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        await self._cluster.close()

    # -- topics

    async def create_topic(
        self,
        name: str,
        *,
        partitions: int | None = None,
        replication_factor: int | None = None,
        configs: Mapping[str, ConfigValue] | None = None,
        assignments: Mapping[int, Sequence[int]] | None = None,
        validate_only: bool = False,
    ) -> TopicDescription:
        """Returns once it is committed. What is left out is the cluster's default.

        ``assignments`` places replicas by hand: by partition, the preferred leader first.
        """
        check_topic_argument(name, "name")
        request = admin_pb2.CreateTopicRequest(
            name=name,
            partition_count=check_integer_or_none("partitions", partitions, bits=32),
            replication_factor=check_integer_or_none("replication_factor", replication_factor, bits=32),
            configs={
                key: config_text(key, value) for key, value in configs_of("configs", configs or {}).items()
            },
            assignments=assignments_of(assignments),
            validate_only=validate_only,
        )
        return topic_from(await self._calls.create_topic(request))

    async def delete_topic(self, name: str, *, topic_id: str | None = None) -> None:
        """Its name is free at once, its data goes after a delay. Without an id: the one of that name now."""
        check_topic_argument(name, "name")
        if topic_id is None:
            topic_id = (await self._calls.describe_topic(name)).topic_id
        await self._calls.delete_topic(check_text("topic_id", topic_id))

    async def list_topics(self) -> list[TopicListing]:
        return [from_message(TopicListing, each) for each in await self._calls.list_topics()]

    async def describe_topic(
        self,
        name: str,
        *,
        timeout: float = READ_TIMEOUT_S,  # noqa: ASYNC109 - as in Admin
    ) -> TopicDescription:
        check_topic_argument(name, "name")
        return topic_from(await self._calls.describe_topic(name, timeout_s=timeout))

    async def create_partitions(
        self,
        topic: str,
        count: int,
        *,
        assignments: Mapping[int, Sequence[int]] | None = None,
        validate_only: bool = False,
    ) -> TopicDescription:
        """``count`` in all. Keys move to other partitions from then on."""
        check_topic_argument(topic)
        request = admin_pb2.CreatePartitionsRequest(
            name=topic,
            partition_count=check_integer("count", count, bits=32),
            assignments=assignments_of(assignments),
            validate_only=validate_only,
        )
        return topic_from(await self._calls.create_partitions(request))

    async def alter_config(
        self, topic: str | None, changes: Mapping[str, ConfigValue | None], *, validate_only: bool = False
    ) -> dict[str, ConfigEntry]:
        """All changes or none; None as a value: back to the default. No topic: every topic without its own.

        Returns what is in force now.
        """
        if topic is not None:
            check_topic_argument(topic)
        request = admin_pb2.AlterConfigsRequest(topic=topic or "", validate_only=validate_only)
        for name, value in configs_of("changes", changes).items():
            request.changes.add(name=name, value=None if value is None else config_text(name, value))
        return {each.name: config_from(each) for each in await self._calls.alter_configs(request)}

    async def list_offsets(
        self,
        partitions: str | Iterable[tuple[str, int]],
        at: OffsetAt = "latest",
        *,
        timeout: float = OFFSETS_TIMEOUT_S,  # noqa: ASYNC109 - as in Admin
    ) -> dict[TopicPartition, ListedOffset]:
        """Of all partitions of a topic, or of those named: the earliest, the latest, or the first of a time.

        Asked from the leaders; the first partition that none answers for in time raises its error.
        """
        return await list_offsets(
            self._cluster, partitions, at, clock=self._clock, rng=self._rng, timeout_s=timeout
        )

    # -- groups

    async def list_groups(self, *, timeout: float = GROUPS_TIMEOUT_S) -> list[GroupListing]:  # noqa: ASYNC109
        """All of them, from every broker; one that does not answer in time fails the call."""
        return await self._groups.list_groups(timeout)

    async def describe_group(
        self,
        group: str,
        *,
        timeout: float = GROUPS_TIMEOUT_S,  # noqa: ASYNC109 - as in Admin
    ) -> GroupDescription:
        """Members, what each holds, offsets, the lag in records and in time. Or `GroupNotFound`."""
        return await self._groups.describe(group, timeout)

    async def describe_groups(
        self,
        groups: Iterable[str],
        *,
        timeout: float = GROUPS_TIMEOUT_S,  # noqa: ASYNC109 - as in Admin
    ) -> dict[str, GroupDescription]:
        """Those that there are."""
        return await self._groups.describe_all(groups, timeout)

    async def delete_group(
        self,
        group: str,
        *,
        revision: str | None = None,
        timeout: float = GROUPS_TIMEOUT_S,  # noqa: ASYNC109 - as in Admin
    ) -> None:
        """With its offsets; only while it has no members.

        With the ``revision`` of its description only as it was then: else `InvalidUpdateVersion`.
        """
        await self._groups.delete(group, revision, timeout)

    async def list_group_offsets(
        self,
        group: str,
        *,
        timeout: float = GROUPS_TIMEOUT_S,  # noqa: ASYNC109 - as in Admin
    ) -> dict[TopicPartition, CommittedOffset]:
        """How far the group has come, wherever it has an offset."""
        return await self._groups.offsets(group, timeout)

    async def commit_offsets(
        self,
        group: str,
        offsets: Mapping[tuple[str, int], int | OffsetAndMetadata],
        *,
        timeout: float = GROUPS_TIMEOUT_S,  # noqa: ASYNC109 - as in Admin
    ) -> None:
        """In nobody's name: only while the group has no members (`GroupNotEmpty`)."""
        await self._groups.commit(group, offsets, timeout)

    async def reset_offsets(
        self,
        group: str,
        partitions: str | Iterable[tuple[str, int]],
        to: ResetTo | None = None,
        *,
        timestamp_ms: int | None = None,
        validate_only: bool = False,
        timeout: float = GROUPS_TIMEOUT_S,  # noqa: ASYNC109 - as in Admin
    ) -> dict[TopicPartition, OffsetReset]:
        """Of all partitions of a topic, or of those named: to the earliest, the latest, an offset, or a time.

        Offsets that a log does not hold become the nearest that it does. Returns what was there and what is
        now; with ``validate_only``, what would be.
        """
        return await self._groups.reset(
            group, partitions, to, timestamp_ms, validate_only=validate_only, timeout_s=timeout
        )

    async def delete_offsets(
        self,
        group: str,
        partitions: Iterable[tuple[str, int]],
        *,
        timeout: float = GROUPS_TIMEOUT_S,  # noqa: ASYNC109 - as in Admin
    ) -> None:
        """Only where no member reads."""
        await self._groups.delete_offsets(group, partitions, timeout)

    # -- the cluster and its quorum

    async def describe_cluster(self) -> ClusterDescription:
        return cluster_from(await self._calls.describe_cluster())

    async def describe_quorum(self) -> QuorumDescription:
        return quorum_from(await self._calls.describe_quorum())

    async def add_voter(self, node_id: int, address: str) -> str:
        """Brought up to date first; returns the id of its directory."""
        return await self._calls.add_voter(_node_id(node_id), check_text("address", address))

    async def remove_voter(self, node_id: int, *, directory_id: str = "") -> None:
        """Without a directory id: whichever it has."""
        await self._calls.remove_voter(_node_id(node_id), check_text("directory_id", directory_id))

    async def transfer_controller(self, node_id: int | None = None) -> int:
        """To the voter that is furthest, if nobody is named; returns who leads now."""
        return await self._calls.transfer_controller(None if node_id is None else _node_id(node_id))

    async def update_feature_level(self, level: int = 0) -> int:
        """0: the highest that every node can run on; returns the level in force."""
        return await self._calls.update_feature_level(check_integer("level", level, bits=32))

    # -- partitions

    async def elect_preferred_leaders(
        self, partitions: Iterable[tuple[str, int]] | None = None
    ) -> ElectionResult:
        """None: of all partitions."""
        names = [name_of(each) for each in partitions or ()]
        if partitions is not None and not names:
            return ElectionResult((), {})
        request = admin_pb2.ElectPreferredLeadersRequest(partitions=names)
        return election_from(await self._calls.elect_preferred_leaders(request))

    async def reassign_partitions(
        self, moves: Mapping[tuple[str, int], Sequence[int] | None], *, validate_only: bool = False
    ) -> None:
        """All or none: to the brokers named, the preferred leader first; None calls a move off.

        Returns once they are under way; ``list_reassignments`` tells how far they are.
        """
        request = admin_pb2.ReassignPartitionsRequest(validate_only=validate_only)
        for partition, replicas in moves.items():
            request.moves.add(partition=name_of(partition), replicas=replicas_of("moves", replicas))
        await self._calls.reassign_partitions(request)

    async def list_reassignments(self) -> list[Reassignment]:
        return [reassignment_from(each) for each in await self._calls.list_reassignments()]

    async def recover_partition(
        self,
        partition: tuple[str, int],
        *,
        leader: int | None = None,
        accept_missing_replicas: bool = False,
        topic_id: str | None = None,
        leader_epoch: int | None = None,
    ) -> RecoveryResult:
        """The last resort for a partition whose ISR and ELR are gone: acknowledged records may be lost.

        ``topic_id`` and ``leader_epoch``: of the description on which it was decided; after another
        election it is refused then. Without both: of the partition as it is now. A program that calls again
        after an error gives them, or it may give up records in an incident that nobody has looked at.
        """
        request = admin_pb2.RecoverPartitionRequest(
            partition=name_of(partition),
            leader=check_integer_or_none("leader", leader, bits=32),
            accept_missing_replicas=accept_missing_replicas,
            leader_epoch=check_integer_or_none("leader_epoch", leader_epoch, bits=32),
        )
        if (topic_id is None) != (leader_epoch is None):
            raise InvalidRequest(
                "topic_id and leader_epoch name an incident together: one of them is missing"
            )
        if topic_id is not None:
            request.partition.topic_id = check_text("topic_id", topic_id)
        return recovery_from(await self._calls.recover_partition(request))

    # -- brokers

    async def check_broker_restart(self, broker_id: int) -> RestartCheck:
        """Whether it can stop without making a partition, or the metadata quorum, unavailable."""
        answer = await self._calls.check_broker_restart(_broker_id(broker_id))
        # It may be a voter as well; the controllers look at partitions alone.
        quorum = await self._calls.describe_quorum()
        return restart_check_from(answer, quorum_objections(broker_id, quorum, name=f"broker {broker_id}"))

    async def drain_broker(self, broker_id: int, *, cancel: bool = False) -> list[TopicPartition]:
        """Move leaders away; returns the partitions that it still leads. ``cancel`` takes it back."""
        answer = await self._calls.drain_broker(_broker_id(broker_id), cancel=cancel)
        return [partition_from(each) for each in answer.remaining_leaders]

    async def decommission_broker(self, broker_id: int, *, cancel: bool = False) -> DecommissionProgress:
        """Move replicas away; forget it once it holds none and is gone. Call again to see how far it is."""
        answer = await self._calls.decommission_broker(_broker_id(broker_id), cancel=cancel)
        return from_message(DecommissionProgress, answer)


def _node_id(found: object) -> int:
    return check_integer("node_id", found, bits=32)


def _broker_id(found: object) -> int:
    return check_integer("broker_id", found, bits=32)
