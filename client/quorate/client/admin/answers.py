"""From the messages of AdminService to the values of `quorate.client.admin.types`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias, TypeVar

from quorate.client.admin.types import (
    BrokerDescription,
    ClusterDescription,
    ConfigEntry,
    ControllerDescription,
    ElectionResult,
    PartitionDescription,
    QuorumDescription,
    Reassignment,
    RecoveryCandidate,
    RecoveryResult,
    RestartCheck,
    TopicDescription,
    VoterDescription,
)
from quorate.client.arguments import check_integer, check_partition_argument, check_text, shown
from quorate.client.from_message import from_message
from quorate.core.ids import PartitionId, TopicName, TopicPartition
from quorate.errors import InvalidConfig, InvalidRequest
from quorate.rpc.error_detail import error_from_detail
from quorate.v1 import admin_pb2

__all__ = [
    "ConfigValue",
    "assignments_of",
    "cluster_from",
    "config_from",
    "config_source_name",
    "config_text",
    "configs_of",
    "election_from",
    "name_of",
    "partition_from",
    "quorum_from",
    "reassignment_from",
    "recovery_from",
    "replicas_of",
    "restart_check_from",
    "topic_from",
]


T = TypeVar("T")

#: what a setting may be given as
ConfigValue: TypeAlias = str | bool | int | float


def topic_from(message: admin_pb2.TopicDescription) -> TopicDescription:
    configs = {entry.name: config_from(entry) for entry in message.configs}
    partitions = tuple(_partition(each) for each in message.partitions)
    return from_message(TopicDescription, message, configs=configs, partitions=partitions)


def _partition(message: admin_pb2.PartitionDescription) -> PartitionDescription:
    error = error_from_detail(message.error) if message.HasField("error") else None
    return from_message(PartitionDescription, message, error=error)


def config_from(message: admin_pb2.ConfigEntry) -> ConfigEntry:
    return from_message(ConfigEntry, message, source=config_source_name(message.source))


def config_source_name(source: admin_pb2.ConfigSource) -> str:
    """As people write it; "unknown" is one that only newer brokers have."""
    if source not in admin_pb2.ConfigSource.values():
        return "unknown"
    return admin_pb2.ConfigSource.Name(source).removeprefix("CONFIG_SOURCE_").lower()


def cluster_from(message: admin_pb2.DescribeClusterResponse) -> ClusterDescription:
    return from_message(
        ClusterDescription,
        message,
        brokers=tuple(from_message(BrokerDescription, each) for each in message.brokers),
        controllers=tuple(from_message(ControllerDescription, each) for each in message.controllers),
    )


def quorum_from(message: admin_pb2.DescribeQuorumResponse) -> QuorumDescription:
    return from_message(
        QuorumDescription, message, voters=_voters(message.voters), learners=_voters(message.learners)
    )


def _voters(messages: Iterable[admin_pb2.VoterDescription]) -> tuple[VoterDescription, ...]:
    return tuple(from_message(VoterDescription, each) for each in messages)


def election_from(message: admin_pb2.ElectPreferredLeadersResponse) -> ElectionResult:
    return ElectionResult(
        tuple(partition_from(each) for each in message.moved),
        {partition_from(each.partition): error_from_detail(each.error) for each in message.refused},
    )


def reassignment_from(message: admin_pb2.Reassignment) -> Reassignment:
    return from_message(Reassignment, message, partition=partition_from(message.partition))


def recovery_from(message: admin_pb2.RecoverPartitionResponse) -> RecoveryResult:
    candidates = tuple(from_message(RecoveryCandidate, each) for each in message.candidates)
    return from_message(RecoveryResult, message, candidates=candidates)


def restart_check_from(
    message: admin_pb2.CheckBrokerRestartResponse, objections: Sequence[str]
) -> RestartCheck:
    """``objections``: of the quorum; the message knows about partitions."""
    return RestartCheck(message.is_safe and not objections, (*message.reasons, *objections))


def partition_from(message: admin_pb2.PartitionName) -> TopicPartition:
    return TopicPartition(TopicName(message.topic), PartitionId(message.partition))


def name_of(partition: tuple[str, int]) -> admin_pb2.PartitionName:
    topic, number = check_partition_argument(partition)
    return admin_pb2.PartitionName(topic=topic, partition=number)


def configs_of(argument: str, settings: Mapping[str, T]) -> Mapping[str, T]:
    """The same, if it is a mapping from names."""
    if not isinstance(settings, Mapping) or not all(isinstance(key, str) for key in settings):
        raise InvalidRequest(f"{argument} is {shown(settings)}: a mapping from names to values is expected")
    for key in settings:
        check_text(f"a name in {argument}", key)
    return settings


def config_text(key: str, value: ConfigValue) -> str:
    """A setting as brokers take it: 5 as "5", True as "true"."""
    if isinstance(value, str):
        return check_text(key, value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    raise InvalidConfig(f"{key} is {shown(value)}: a str, a number or a bool is expected", key=key)


def assignments_of(replicas: Mapping[int, Sequence[int]] | None) -> list[admin_pb2.ReplicaAssignment]:
    """By the number of the partition."""
    wanted = {
        check_integer("a partition in assignments", partition, bits=32): replicas_of("assignments", brokers)
        for partition, brokers in (replicas or {}).items()
    }
    return [
        admin_pb2.ReplicaAssignment(partition=partition, replicas=brokers)
        for partition, brokers in sorted(wanted.items())
    ]


def replicas_of(argument: str, brokers: Sequence[int] | None) -> list[int]:
    """Ids of brokers, the preferred leader first; None: none."""
    if brokers is None:
        return []
    if isinstance(brokers, str | bytes) or not isinstance(brokers, Iterable):
        raise InvalidRequest(f"{argument} has {shown(brokers)}: a sequence of broker ids is expected")
    return [check_integer(f"a broker id in {argument}", each, bits=32) for each in brokers]
