"""The settings of a node, and how they are loaded."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from quorate.core.config.groups import GROUP_SETTINGS, GroupConfig
from quorate.core.config.kinds import (
    INT64_MAX,
    AddressList,
    ByteCount,
    Choice,
    Choices,
    DirectoryPath,
    DurationMs,
    Flag,
    HostPort,
    Integer,
    Name,
    Optional,
    ReachableAddress,
    VoterAddress,
    VoterList,
)
from quorate.core.config.loader import resolve
from quorate.core.config.metrics import METRICS_SETTINGS, MetricsConfig
from quorate.core.config.schema import REQUIRED, Setting, check_settings, setting, settings_of
from quorate.core.config.sources import from_environment, from_file, from_set_options
from quorate.core.config.topic import CLUSTER_KEYS, NODE_KEYS, TOPIC_SETTINGS, TopicConfig
from quorate.core.ids import BrokerId
from quorate.core.limits import (
    LEASE_SHARE_OF_SESSION_MAX,
    PARTITIONS_PER_TOPIC_MAX,
    PRODUCER_REMEMBERED_MS_MIN,
)
from quorate.core.logging import LogLevel
from quorate.errors import InvalidConfig

__all__ = [
    "NODE_SETTINGS",
    "LoggingFormat",
    "NodeConfig",
    "NodeRole",
    "RpcTransport",
    "load_node_config",
]

_INT32_MAX: Final = (1 << 31) - 1
_HOUR_MS: Final = 3_600_000
#: with fewer, one lost message would pass for a death
_BEATS_PER_TIMEOUT: Final = 3
#: a controller that hears no majority for so long gives up
_ELECTION_TIMEOUTS_UNTIL_RESIGNED: Final = 2

#: Room that a message needs beside the records it carries: names and ids of many partitions.
_MESSAGE_OVERHEAD_BYTES: Final = 1 << 20


class LoggingFormat(StrEnum):
    AUTO = "auto"
    JSON = "json"
    TEXT = "text"


class RpcTransport(StrEnum):
    """What carries calls between processes: the same gRPC on the wire, by two implementations."""

    GRPCIO = "grpcio"
    LEAN = "lean"


class NodeRole(StrEnum):
    """What a node is in its cluster; small clusters have nodes that are both."""

    CONTROLLER = "controller"
    BROKER = "broker"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeConfig:
    """Every setting of one node."""

    node_id: BrokerId = setting(
        "node.id",
        Integer(0, _INT32_MAX),
        default=REQUIRED,
        about="The number of this node, unique in its cluster and the same for as long as its data lives.",
        trade_off="No default: two nodes that share a number by accident would take each other's place.",
    )
    data_dir: str = setting(
        "data.dir",
        DirectoryPath(),
        default=REQUIRED,
        about="Where this node keeps its logs; made if it is missing. One directory belongs to one node.",
        trade_off="No default: data must not end up in whatever directory the process happened to start in.",
    )
    listeners: tuple[HostPort, ...] = setting(
        "listeners",
        AddressList(),
        default=(HostPort("127.0.0.1", 9092),),
        about="Addresses on which the node serves clients.",
        trade_off="The default serves this machine only; 0.0.0.0 opens the node to the network, unencrypted.",
    )
    advertised_address: HostPort | None = setting(
        "advertised.address",
        Optional(ReachableAddress()),
        default=None,
        about="Where other nodes and clients reach this node. Without it: the first of its listeners.",
        trade_off="Needed where a node listens on 0.0.0.0 or behind a translated address; a wrong one makes "
        "a node that is well and that nobody can reach.",
    )
    node_roles: tuple[NodeRole, ...] = setting(
        "node.roles",
        Choices(NodeRole),
        default=(NodeRole.BROKER,),
        about="What this node does: keep the cluster's metadata and decide (controller), keep records "
        "(broker), or both.",
        trade_off="Both in one process saves machines; controllers of their own are not slowed down by load "
        "on brokers and are restarted less often.",
    )
    node_rack: str | None = setting(
        "node.rack",
        Optional(Name()),
        default=None,
        about="The rack, zone or room that this node would be lost together with.",
        trade_off="Replicas of a partition go to different racks as far as possible; racks of unequal size "
        "get unequal load.",
    )
    cluster_id: str | None = setting(
        "cluster.id",
        Optional(Name()),
        default=None,
        about="Name of the cluster. A controller that has one refuses voters of any other cluster; "
        "controllers refuse brokers that name another.",
        trade_off="Without it the founding voters draw one; with it, a wrong address in controller.voters "
        "cannot join two clusters by accident before they have met.",
    )
    controller_voters: tuple[VoterAddress, ...] = setting(
        "controller.voters",
        VoterList(),
        default=(),
        about="The controllers that found the metadata quorum, the same list on every node. Later changes "
        "are made in the running cluster, not here. Empty: no quorum.",
        trade_off="Three voters survive the loss of one, five that of two; more make every change of "
        "metadata wait for more disks.",
    )
    controller_quorum_election_timeout_ms: int = setting(
        "controller.quorum.election.timeout.ms",
        DurationMs(50, _HOUR_MS),
        default=500,
        about="A voter that hears nothing from the active controller for this long, up to twice as long at "
        "random, stands for election. A controller that hears no majority for twice as long resigns.",
        trade_off="Shorter finds a dead controller sooner; a pause of the machine, or a slow disk, is then "
        "taken for death sooner.",
    )
    controller_quorum_heartbeat_interval_ms: int = setting(
        "controller.quorum.heartbeat.interval.ms",
        DurationMs(10, _HOUR_MS),
        default=100,
        about="How often the active controller shows the other voters that it is there.",
        trade_off="At most a third of controller.quorum.election.timeout.ms, so that a single late heartbeat "
        "starts no election; more often costs a little traffic.",
    )
    controller_probe_enable: bool = setting(
        "controller.probe.enable",
        Flag(),
        default=True,
        about="When the heartbeats of a broker break off, the controller connects to its address: refused "
        "means that the process is gone, and it is fenced at once instead of after "
        "broker.session.timeout.ms.",
        trade_off="Writes with acks=all never depend on it. Reads and acks=0 or 1 do: where connections to a "
        "living node can be refused (a firewall that rejects, an address that was given away), it may answer "
        "these for a moment although another has taken over. Set it to false there.",
    )
    metadata_log_max_record_bytes_between_snapshots: int = setting(
        "metadata.log.max.record.bytes.between.snapshots",
        ByteCount(1 << 10, INT64_MAX),
        default=20 << 20,
        about="A controller writes a snapshot of the metadata after so many bytes of changes.",
        trade_off="Fewer make restarts faster and the journal shorter; each snapshot writes all metadata.",
    )
    metadata_log_segment_bytes: int = setting(
        "metadata.log.segment.bytes",
        ByteCount(1 << 14, _INT32_MAX),
        default=16 << 20,
        about="Size at which a file of the metadata journal is closed and a new one begun.",
        trade_off="Smaller files free disk sooner after a snapshot; they mean more rolls.",
    )
    broker_session_timeout_ms: int = setting(
        "broker.session.timeout.ms",
        DurationMs(100, _HOUR_MS),
        default=3_000,
        about="A broker whose heartbeats fail for this long is fenced: it leads nothing any more.",
        trade_off="Shorter moves leaders away from a hung broker sooner; a pause then costs elections.",
    )
    broker_heartbeat_interval_ms: int = setting(
        "broker.heartbeat.interval.ms",
        DurationMs(10, _HOUR_MS),
        default=250,
        about="How often a broker tells the active controller that it is alive.",
        trade_off="At most a third of broker.session.timeout.ms, so that a single lost heartbeat fences "
        "nobody; more often costs a little work at the controller.",
    )
    broker_lease_ms: int = setting(
        "broker.lease.ms",
        DurationMs(30, _HOUR_MS),
        default=2_000,
        about="A broker that was not heard by the active controller for this long answers no reads and no "
        "writes with acks=0 or 1, because another may lead by now. Writes with acks=all need no lease.",
        trade_off="At most two thirds of broker.session.timeout.ms, and at most what two "
        "controller.quorum.election.timeout.ms leave of it. Shorter stops a cut-off broker sooner; a slow "
        "answer of the controller then interrupts readers.",
    )
    broker_device_witness_interval_ms: int = setting(
        "broker.device.witness.interval.ms",
        DurationMs(100, _HOUR_MS),
        default=10_000,
        about="How often a broker syncs a number to its disk and tells the active controller of it. A "
        "directory with a lower one is an old copy, and no replica in it counts.",
        trade_off="A copy of the directory of a broker that runs is told apart once it is older than this "
        "and a moment; each number costs one sync.",
    )
    controlled_shutdown_timeout_ms: int = setting(
        "controlled.shutdown.timeout.ms",
        DurationMs(0, _HOUR_MS),
        default=10_000,
        about="How long a broker that is asked to stop waits until its leaders have moved to others.",
        trade_off="Longer waits for a quorum that is being elected; without a quorum a stop takes this long.",
    )
    leader_imbalance_check_interval_ms: int = setting(
        "leader.imbalance.check.interval.ms",
        DurationMs(100, _HOUR_MS * 24),
        default=10_000,
        about="How often the controller moves leaders back to the first broker in their list of replicas.",
        trade_off="More often evens out the load sooner after a restart; each move interrupts a partition "
        "for a moment.",
    )
    num_partitions: int = setting(
        "num.partitions",
        Integer(1, PARTITIONS_PER_TOPIC_MAX),
        default=1,
        about="Partitions of a topic that is created without a number of its own.",
        trade_off="More partitions let more consumers share a topic; order holds only within one partition.",
    )
    topic_defaults: TopicConfig = field(default_factory=TopicConfig)
    groups: GroupConfig = field(default_factory=GroupConfig)
    metrics: MetricsConfig = field(default_factory=MetricsConfig)
    log_retention_check_interval_ms: int = setting(
        "log.retention.check.interval.ms",
        DurationMs(100, _HOUR_MS * 24),
        default=300_000,
        about="How often expired segments are looked for.",
        trade_off="More often frees disk sooner; each look costs a little time per partition.",
    )
    file_delete_delay_ms: int = setting(
        "file.delete.delay.ms",
        DurationMs(0, _HOUR_MS * 24 * 365),
        default=60_000,
        about="How long the files of a replica stay after its topic was deleted, or it was moved elsewhere.",
        trade_off="Longer leaves time to undo a mistake; the disk space comes back as much later.",
    )
    producer_id_expiration_ms: int = setting(
        "producer.id.expiration.ms",
        DurationMs(PRODUCER_REMEMBERED_MS_MIN, INT64_MAX),
        default=24 * _HOUR_MS,
        about="An idempotent producer is forgotten when its newest batch in a partition is this old. No less "
        "than an hour: producers send a batch again for up to half an hour (`delivery_timeout_ms`), and what "
        "is sent again by one that was forgotten is written twice. While a partition knows more than 25000, "
        "those that were silent for an hour are forgotten early, and from 50000 on new ones are refused.",
        trade_off="Longer recognises duplicates of producers that pause for long; it costs memory for each.",
    )
    num_io_threads: int = setting(
        "num.io.threads",
        Integer(1, 64),
        default=4,
        about="Threads that wait for the device (fdatasync and syncs of directories).",
        trade_off="More let more partitions sync at the same time; a single disk gains little beyond a few.",
    )
    queued_max_requests: int = setting(
        "queued.max.requests",
        Integer(1, 100_000),
        default=1_000,
        about="Requests of clients that may be in progress at once, from their first byte until their answer "
        "is taken; more get OVERLOADED. Calls that wait have as many for themselves: fetches, and the "
        "heartbeats of members of groups. Calls between nodes have a bound of their own.",
        trade_off="A bound keeps a burst from exhausting memory; too low turns well-behaved clients away.",
    )
    log_recent_bytes: int = setting(
        "log.recent.bytes",
        ByteCount(0, INT64_MAX),
        default=8 << 20,
        about="Bytes of batches that are kept in memory after they were appended, for all partitions "
        "together: followers and consumers that are up to date are served from there. 0: none, all reads go "
        "to the files.",
        trade_off="More serves readers that are a little behind as well; it is memory that the broker holds.",
    )
    queued_max_request_bytes: int = setting(
        "queued.max.request.bytes",
        ByteCount(1 << 20, INT64_MAX),
        default=64 << 20,
        about="Bytes of produce requests that may be in progress at once; beyond that single requests get "
        "OVERLOADED, and streams are not read on. Each of the two kinds has this much for itself, and so "
        "have fetches that wait.",
        trade_off="More rides out longer pauses of a follower or a disk; this much memory can be held, and a "
        "request larger than this is taken only while no other is in progress.",
    )
    queued_max_response_bytes: int = setting(
        "queued.max.response.bytes",
        ByteCount(1 << 20, INT64_MAX),
        default=256 << 20,
        about="Bytes of records in fetch answers that clients have not taken yet. A fetch gets what is left, "
        "waits for a while if nothing is, and then gets OVERLOADED.",
        trade_off="More lets more slow readers be served at once; about twice this much memory can be held.",
    )
    rpc_transport: RpcTransport = setting(
        "rpc.transport",
        Choice(RpcTransport),
        default=RpcTransport.LEAN,
        about="What speaks gRPC in this node: this project's own implementation, or the library grpcio. "
        "Others cannot tell which; nodes and clients of one cluster may differ. Clients heed the "
        "environment variable, too.",
        trade_off="lean needs a fraction of the time for each call; grpcio is what everybody else uses, and "
        "has been in use for longer.",
    )
    socket_request_max_bytes: int = setting(
        "socket.request.max.bytes",
        ByteCount(4 << 20, _INT32_MAX),
        default=100 << 20,
        about="Largest message that is read from or written to the network, framing included.",
        trade_off="Larger messages carry more batches each; this many bytes can be held for every request.",
    )
    request_partitions_max: int = setting(
        "request.partitions.max",
        Integer(1, 100_000),
        default=2_000,
        about="Most partitions in one request.",
        trade_off="One request with very many partitions delays all others, because a node is one thread.",
    )
    produce_timeout_max_ms: int = setting(
        "produce.timeout.max.ms",
        DurationMs(1, _HOUR_MS),
        default=120_000,
        about="Longest time that a produce request may wait for its acknowledgement, whatever it asks for.",
        trade_off="Longer waits ride out a slow disk; a client learns later that something is wrong.",
    )
    fetch_max_bytes: int = setting(
        "fetch.max.bytes",
        ByteCount(1 << 10, _INT32_MAX),
        default=55 << 20,
        about="Most bytes of records in one fetch answer, whatever the request asks for.",
        trade_off="Larger answers help readers that are far behind; each is held in memory until sent.",
    )
    replica_lag_time_max_ms: int = setting(
        "replica.lag.time.max.ms",
        DurationMs(100, _HOUR_MS),
        default=10_000,
        about="A follower that has not caught up with its leader's log for this long leaves the ISR.",
        trade_off="Shorter makes acknowledgements wait less for a follower that is stuck; a burst then "
        "throws followers out that would have caught up.",
    )
    replica_fetch_max_bytes: int = setting(
        "replica.fetch.max.bytes",
        ByteCount(1 << 10, _INT32_MAX),
        default=1 << 20,
        about="Most bytes of one partition in one answer to a follower; a larger batch goes alone.",
        trade_off="More lets a follower catch up in fewer exchanges; one partition holds up others more.",
    )
    replica_fetch_response_max_bytes: int = setting(
        "replica.fetch.response.max.bytes",
        ByteCount(1 << 10, _INT32_MAX),
        default=10 << 20,
        about="Most bytes of records in one answer to a follower; partitions that do not fit come next.",
        trade_off="More suits many busy partitions; this much memory is held for each follower behind.",
    )
    fetch_wait_max_ms: int = setting(
        "fetch.wait.max.ms",
        DurationMs(0, _HOUR_MS),
        default=60_000,
        about="Longest time that a fetch may wait for records, whatever it asks for.",
        trade_off="Longer waits save requests on quiet topics; each is one of the fetches that "
        "queued.max.requests allows.",
    )
    shutdown_grace_ms: int = setting(
        "shutdown.grace.ms",
        DurationMs(0, _HOUR_MS),
        default=5_000,
        about="How long requests in progress may go on when the node is asked to stop.",
        trade_off="Longer lets more of them finish; supervisors kill processes that take too long.",
    )
    logging_level: LogLevel = setting(
        "logging.level",
        Choice(LogLevel),
        default=LogLevel.INFO,
        about="Least important events that are logged.",
        trade_off="debug also shows what the libraries underneath have to say.",
    )
    logging_format: LoggingFormat = setting(
        "logging.format",
        Choice(LoggingFormat),
        default=LoggingFormat.AUTO,
        about="One JSON object per event (json), coloured lines (text), or text on a terminal and JSON "
        "elsewhere (auto).",
        trade_off="json is for collectors, text is for eyes.",
    )

    def __post_init__(self) -> None:
        check_settings(self)
        self._check_fits_into_message("message.max.bytes", self.topic_defaults.max_message_bytes)
        self._check_fits_into_message("fetch.max.bytes", self.fetch_max_bytes)
        self._check_fits_into_message(
            "replica.fetch.response.max.bytes", self.replica_fetch_response_max_bytes
        )
        self._check_several_beats_fit(
            ("controller.quorum.heartbeat.interval.ms", self.controller_quorum_heartbeat_interval_ms),
            ("controller.quorum.election.timeout.ms", self.controller_quorum_election_timeout_ms),
        )
        self._check_several_beats_fit(
            ("broker.heartbeat.interval.ms", self.broker_heartbeat_interval_ms),
            ("broker.session.timeout.ms", self.broker_session_timeout_ms),
        )
        self._check_lease_ends_before_session()
        self._check_lease_ends_before_lag()
        self._check_place_in_cluster()
        self._check_metrics_have_a_place_of_their_own()

    @property
    def is_controller(self) -> bool:
        return NodeRole.CONTROLLER in self.node_roles

    @property
    def is_broker(self) -> bool:
        return NodeRole.BROKER in self.node_roles

    def _check_fits_into_message(self, key: str, size: int) -> None:
        if size + _MESSAGE_OVERHEAD_BYTES > self.socket_request_max_bytes:
            raise InvalidConfig(
                f"{key}: {size} bytes do not fit into a message of "
                f"socket.request.max.bytes={self.socket_request_max_bytes}; lower the one or raise the other",
                key=key,
            )

    def _check_several_beats_fit(self, interval: tuple[str, int], timeout: tuple[str, int]) -> None:
        (interval_key, interval_ms), (timeout_key, timeout_ms) = interval, timeout
        if interval_ms * _BEATS_PER_TIMEOUT > timeout_ms:
            raise InvalidConfig(
                f"{interval_key}: {interval_ms} ms is more than a third of {timeout_key}={timeout_ms}; "
                "lower the one or raise the other",
                key=interval_key,
            )

    def _check_lease_ends_before_session(self) -> None:
        """Rule 37; at run time the lease also keeps to the session time-out that the controller names."""
        session_ms = self.broker_session_timeout_ms
        # So long a controller may believe that it leads, and renew leases, while the next one counts already.
        deposed_ms = _ELECTION_TIMEOUTS_UNTIL_RESIGNED * self.controller_quorum_election_timeout_ms
        lease_ms_max = min(round(session_ms * LEASE_SHARE_OF_SESSION_MAX), session_ms - deposed_ms)
        if self.broker_lease_ms > lease_ms_max:
            raise InvalidConfig(
                f"broker.lease.ms: {self.broker_lease_ms} ms are too long for "
                f"broker.session.timeout.ms={session_ms} and controller.quorum.election.timeout.ms="
                f"{self.controller_quorum_election_timeout_ms}, with which at most {lease_ms_max} are safe; "
                "lower it, or raise the session time-out",
                key="broker.lease.ms",
            )

    def _check_lease_ends_before_lag(self) -> None:
        """Rule 37: a leader that was replaced by plan, and does not know, is in the ISR until it lags."""
        deposed_ms = _ELECTION_TIMEOUTS_UNTIL_RESIGNED * self.controller_quorum_election_timeout_ms
        lag_ms_min = self.broker_lease_ms + deposed_ms
        if self.replica_lag_time_max_ms < lag_ms_min:
            raise InvalidConfig(
                f"replica.lag.time.max.ms: {self.replica_lag_time_max_ms} ms are too short for "
                f"broker.lease.ms={self.broker_lease_ms} and controller.quorum.election.timeout.ms="
                f"{self.controller_quorum_election_timeout_ms}, with which at least {lag_ms_min} are safe; "
                "raise it, or lower the lease",
                key="replica.lag.time.max.ms",
            )

    def _check_place_in_cluster(self) -> None:
        own = next((voter for voter in self.controller_voters if voter.node_id == self.node_id), None)
        if self.is_controller and own is None:
            raise InvalidConfig(
                f"controller.voters: node.id={self.node_id} is a controller (node.roles) and not among "
                f"'{VoterList().render(self.controller_voters)}'; add {self.node_id}@HOST:PORT, or change "
                "node.roles",
                key="controller.voters",
            )
        if own is not None and not self.is_controller:
            raise InvalidConfig(
                f"node.roles: controller.voters names this node ({own}), so it has to be a controller",
                key="node.roles",
            )
        if self.controller_voters and self.advertised_address is None and self.listeners[0].is_wildcard:
            raise InvalidConfig(
                f"advertised.address: the node listens on {self.listeners[0]}, to which no other node can "
                "connect; set the address at which they reach it",
                key="advertised.address",
            )

    def _check_metrics_have_a_place_of_their_own(self) -> None:
        """Here, where both keys can be named; the system would only say that the address is in use."""
        address = self.metrics.address
        if address is None or address.port == 0:
            return
        for listener in self.listeners:
            is_shared = listener.host == address.host or listener.is_wildcard or address.is_wildcard
            if listener.port == address.port and is_shared:
                raise InvalidConfig(
                    f"metrics.address: {address} is where the node listens already (listeners names "
                    f"{listener}); choose another port",
                    key="metrics.address",
                )


def _node_level(topic_setting: Setting) -> Setting:
    """A topic's setting under its node-wide name."""
    return Setting(
        attribute=topic_setting.attribute,
        key=NODE_KEYS[topic_setting.key],
        kind=topic_setting.kind,
        default=topic_setting.default,
        about=f"Default of the topic setting {topic_setting.key}. {topic_setting.about}",
        trade_off=topic_setting.trade_off,
    )


_OWN_SETTINGS: Final = settings_of(NodeConfig)
_TOPIC_DEFAULTS: Final = tuple(_node_level(each) for each in TOPIC_SETTINGS if each.key in NODE_KEYS)

#: keys that people look for in a node's file, and where they are set instead
_SET_ELSEWHERE: Final = dict.fromkeys(
    sorted(CLUSTER_KEYS),
    "has to be one value for the whole cluster, so it is kept in the metadata and never in a node's "
    "configuration; set it for a topic, or as the cluster's default",
)

#: Every key that a node's configuration may hold.
NODE_SETTINGS: Final[tuple[Setting, ...]] = (
    _OWN_SETTINGS + GROUP_SETTINGS + METRICS_SETTINGS + _TOPIC_DEFAULTS
)


def load_node_config(
    path: str | None,
    *,
    set_options: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
) -> NodeConfig:
    """The configuration from a file (if given), the environment and ``--set`` options, checked."""
    variables = {each.environment_name: each.key for each in NODE_SETTINGS}
    values = resolve(
        NODE_SETTINGS,
        [
            from_file(path) if path is not None else [],
            from_environment(os.environ if environment is None else environment, variables),
            from_set_options(set_options),
        ],
        set_elsewhere=_SET_ELSEWHERE,
    )
    return NodeConfig(
        **_by_attribute(_OWN_SETTINGS, values),
        topic_defaults=TopicConfig(**_by_attribute(_TOPIC_DEFAULTS, values)),
        groups=GroupConfig(**_by_attribute(GROUP_SETTINGS, values)),
        metrics=MetricsConfig(**_by_attribute(METRICS_SETTINGS, values)),
    )


def _by_attribute(settings: Sequence[Setting], values: Mapping[str, object]) -> dict[str, Any]:
    return {each.attribute: values[each.key] for each in settings if each.key in values}
