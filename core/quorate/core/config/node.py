"""The settings of a node, and how they are loaded."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from quorate.core.config.kinds import (
    INT64_MAX,
    AddressList,
    ByteCount,
    Choice,
    DirectoryPath,
    DurationMs,
    HostPort,
    Integer,
)
from quorate.core.config.loader import resolve
from quorate.core.config.schema import REQUIRED, Setting, check_settings, setting, settings_of
from quorate.core.config.sources import from_environment, from_file, from_set_options
from quorate.core.config.topic import NODE_KEYS, TOPIC_SETTINGS, TopicConfig
from quorate.core.ids import BrokerId
from quorate.core.limits import PARTITIONS_PER_TOPIC_MAX
from quorate.core.logging import LogLevel
from quorate.errors import InvalidConfig

__all__ = [
    "NODE_SETTINGS",
    "LoggingFormat",
    "NodeConfig",
    "load_node_config",
]

_INT32_MAX: Final = (1 << 31) - 1
_HOUR_MS: Final = 3_600_000

#: Room that a message needs beside the records it carries: names and ids of many partitions.
_MESSAGE_OVERHEAD_BYTES: Final = 1 << 20


class LoggingFormat(StrEnum):
    AUTO = "auto"
    JSON = "json"
    TEXT = "text"


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
    num_partitions: int = setting(
        "num.partitions",
        Integer(1, PARTITIONS_PER_TOPIC_MAX),
        default=1,
        about="Partitions of a topic that is created without a number of its own.",
        trade_off="More partitions let more consumers share a topic; order holds only within one partition.",
    )
    topic_defaults: TopicConfig = field(default_factory=TopicConfig)
    log_retention_check_interval_ms: int = setting(
        "log.retention.check.interval.ms",
        DurationMs(100, _HOUR_MS * 24),
        default=300_000,
        about="How often expired segments are looked for.",
        trade_off="More often frees disk sooner; each look costs a little time per partition.",
    )
    producer_id_expiration_ms: int = setting(
        "producer.id.expiration.ms",
        DurationMs(1, INT64_MAX),
        default=24 * _HOUR_MS,
        about="An idempotent producer is forgotten when its newest batch in a partition is this old.",
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
        about="Requests that may be in progress at once, waiting fetches included; more get OVERLOADED.",
        trade_off="A bound keeps a burst from exhausting memory; too low turns well-behaved clients away.",
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
    fetch_wait_max_ms: int = setting(
        "fetch.wait.max.ms",
        DurationMs(0, _HOUR_MS),
        default=60_000,
        about="Longest time that a fetch may wait for records, whatever it asks for.",
        trade_off="Longer waits save requests on quiet topics; each holds one of queued.max.requests.",
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

    def topic_config(self, overrides: Mapping[str, str]) -> TopicConfig:
        """Every setting of a topic that has these of its own; ``InvalidConfig`` names what is refused."""
        config = self.topic_defaults.with_overrides(overrides)
        self._check_fits_into_message("max.message.bytes", config.max_message_bytes)
        return config

    def _check_fits_into_message(self, key: str, size: int) -> None:
        if size + _MESSAGE_OVERHEAD_BYTES > self.socket_request_max_bytes:
            raise InvalidConfig(
                f"{key}: {size} bytes do not fit into a message of "
                f"socket.request.max.bytes={self.socket_request_max_bytes}; lower the one or raise the other",
                key=key,
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
_TOPIC_DEFAULTS: Final = tuple(_node_level(each) for each in TOPIC_SETTINGS)

#: Every key that a node's configuration may hold.
NODE_SETTINGS: Final[tuple[Setting, ...]] = _OWN_SETTINGS + _TOPIC_DEFAULTS


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
    )
    return NodeConfig(
        **_by_attribute(_OWN_SETTINGS, values),
        topic_defaults=TopicConfig(**_by_attribute(_TOPIC_DEFAULTS, values)),
    )


def _by_attribute(settings: Sequence[Setting], values: Mapping[str, object]) -> dict[str, Any]:
    return {each.attribute: values[each.key] for each in settings if each.key in values}
