"""Administration from an ordinary thread: the calls of `AsyncAdmin`, on the process's background loop."""

from __future__ import annotations

from collections.abc import Coroutine, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar

from quorate.client.admin.answers import ConfigValue
from quorate.client.admin.async_admin import AsyncAdmin
from quorate.client.admin.group_types import CommittedOffset, GroupDescription, GroupListing, OffsetReset
from quorate.client.admin.groups import GROUPS_TIMEOUT_S, ResetTo
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
from quorate.client.admin_calls import READ_TIMEOUT_S
from quorate.client.background import BackgroundLoop
from quorate.client.groups.offsets import OffsetAndMetadata
from quorate.client.listed_offsets import OFFSETS_TIMEOUT_S, OffsetAt
from quorate.core.ids import TopicPartition
from quorate.core.transport import Transport
from quorate.errors import ClientClosed

__all__ = ["Admin"]

T = TypeVar("T")


class Admin:
    """Use as a context manager, or close it. What each call does: `AsyncAdmin`. Any thread may use it."""

    def __init__(self, bootstrap: str | Sequence[str], *, transport: Transport | None = None) -> None:
        self._admin = AsyncAdmin(bootstrap, transport=transport)
        self._background = BackgroundLoop.acquire()
        self._is_closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closing twice is harmless."""
        if self._is_closed:
            return
        self._is_closed = True
        try:
            self._background.call(self._admin.close())
        finally:
            self._background.release()

    # -- topics

    def create_topic(
        self,
        name: str,
        *,
        partitions: int | None = None,
        replication_factor: int | None = None,
        configs: Mapping[str, ConfigValue] | None = None,
        assignments: Mapping[int, Sequence[int]] | None = None,
        validate_only: bool = False,
    ) -> TopicDescription:
        return self._run(
            self._admin.create_topic(
                name,
                partitions=partitions,
                replication_factor=replication_factor,
                configs=configs,
                assignments=assignments,
                validate_only=validate_only,
            )
        )

    def delete_topic(self, name: str, *, topic_id: str | None = None) -> None:
        self._run(self._admin.delete_topic(name, topic_id=topic_id))

    def list_topics(self) -> list[TopicListing]:
        return self._run(self._admin.list_topics())

    def describe_topic(self, name: str, *, timeout: float = READ_TIMEOUT_S) -> TopicDescription:
        return self._run(self._admin.describe_topic(name, timeout=timeout))

    def create_partitions(
        self,
        topic: str,
        count: int,
        *,
        assignments: Mapping[int, Sequence[int]] | None = None,
        validate_only: bool = False,
    ) -> TopicDescription:
        return self._run(
            self._admin.create_partitions(topic, count, assignments=assignments, validate_only=validate_only)
        )

    def alter_config(
        self, topic: str | None, changes: Mapping[str, ConfigValue | None], *, validate_only: bool = False
    ) -> dict[str, ConfigEntry]:
        return self._run(self._admin.alter_config(topic, changes, validate_only=validate_only))

    def list_offsets(
        self,
        partitions: str | Iterable[tuple[str, int]],
        at: OffsetAt = "latest",
        *,
        timeout: float = OFFSETS_TIMEOUT_S,
    ) -> dict[TopicPartition, ListedOffset]:
        return self._run(self._admin.list_offsets(partitions, at, timeout=timeout))

    # -- groups

    def list_groups(self, *, timeout: float = GROUPS_TIMEOUT_S) -> list[GroupListing]:
        return self._run(self._admin.list_groups(timeout=timeout))

    def describe_group(self, group: str, *, timeout: float = GROUPS_TIMEOUT_S) -> GroupDescription:
        return self._run(self._admin.describe_group(group, timeout=timeout))

    def describe_groups(
        self, groups: Iterable[str], *, timeout: float = GROUPS_TIMEOUT_S
    ) -> dict[str, GroupDescription]:
        return self._run(self._admin.describe_groups(groups, timeout=timeout))

    def delete_group(
        self, group: str, *, revision: str | None = None, timeout: float = GROUPS_TIMEOUT_S
    ) -> None:
        self._run(self._admin.delete_group(group, revision=revision, timeout=timeout))

    def list_group_offsets(
        self, group: str, *, timeout: float = GROUPS_TIMEOUT_S
    ) -> dict[TopicPartition, CommittedOffset]:
        return self._run(self._admin.list_group_offsets(group, timeout=timeout))

    def commit_offsets(
        self,
        group: str,
        offsets: Mapping[tuple[str, int], int | OffsetAndMetadata],
        *,
        timeout: float = GROUPS_TIMEOUT_S,
    ) -> None:
        self._run(self._admin.commit_offsets(group, offsets, timeout=timeout))

    def reset_offsets(
        self,
        group: str,
        partitions: str | Iterable[tuple[str, int]],
        to: ResetTo | None = None,
        *,
        timestamp_ms: int | None = None,
        validate_only: bool = False,
        timeout: float = GROUPS_TIMEOUT_S,
    ) -> dict[TopicPartition, OffsetReset]:
        return self._run(
            self._admin.reset_offsets(
                group,
                partitions,
                to,
                timestamp_ms=timestamp_ms,
                validate_only=validate_only,
                timeout=timeout,
            )
        )

    def delete_offsets(
        self, group: str, partitions: Iterable[tuple[str, int]], *, timeout: float = GROUPS_TIMEOUT_S
    ) -> None:
        self._run(self._admin.delete_offsets(group, partitions, timeout=timeout))

    # -- the cluster and its quorum

    def describe_cluster(self) -> ClusterDescription:
        return self._run(self._admin.describe_cluster())

    def describe_quorum(self) -> QuorumDescription:
        return self._run(self._admin.describe_quorum())

    def add_voter(self, node_id: int, address: str) -> str:
        return self._run(self._admin.add_voter(node_id, address))

    def remove_voter(self, node_id: int, *, directory_id: str = "") -> None:
        self._run(self._admin.remove_voter(node_id, directory_id=directory_id))

    def transfer_controller(self, node_id: int | None = None) -> int:
        return self._run(self._admin.transfer_controller(node_id))

    def update_feature_level(self, level: int = 0) -> int:
        return self._run(self._admin.update_feature_level(level))

    # -- partitions

    def elect_preferred_leaders(self, partitions: Iterable[tuple[str, int]] | None = None) -> ElectionResult:
        return self._run(self._admin.elect_preferred_leaders(partitions))

    def reassign_partitions(
        self, moves: Mapping[tuple[str, int], Sequence[int] | None], *, validate_only: bool = False
    ) -> None:
        self._run(self._admin.reassign_partitions(moves, validate_only=validate_only))

    def list_reassignments(self) -> list[Reassignment]:
        return self._run(self._admin.list_reassignments())

    def recover_partition(
        self,
        partition: tuple[str, int],
        *,
        leader: int | None = None,
        accept_missing_replicas: bool = False,
        topic_id: str | None = None,
        leader_epoch: int | None = None,
    ) -> RecoveryResult:
        return self._run(
            self._admin.recover_partition(
                partition,
                leader=leader,
                accept_missing_replicas=accept_missing_replicas,
                topic_id=topic_id,
                leader_epoch=leader_epoch,
            )
        )

    # -- brokers

    def check_broker_restart(self, broker_id: int) -> RestartCheck:
        return self._run(self._admin.check_broker_restart(broker_id))

    def drain_broker(self, broker_id: int, *, cancel: bool = False) -> list[TopicPartition]:
        return self._run(self._admin.drain_broker(broker_id, cancel=cancel))

    def decommission_broker(self, broker_id: int, *, cancel: bool = False) -> DecommissionProgress:
        return self._run(self._admin.decommission_broker(broker_id, cancel=cancel))

    def _run(self, call: Coroutine[Any, Any, T]) -> T:
        if self._is_closed:
            call.close()
            raise ClientClosed("the client was closed")
        return self._background.call(call)
