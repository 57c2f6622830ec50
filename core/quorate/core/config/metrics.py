"""The settings of what a node tells of itself over HTTP: a part of a node's configuration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from quorate.core.config.kinds import DurationMs, HostPort, Integer, ListenerAddress, Optional
from quorate.core.config.schema import Setting, check_settings, setting, settings_of

__all__ = ["METRICS_SETTINGS", "MetricsConfig"]

_HOUR_MS: Final = 3_600_000


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsConfig:
    """Every setting of it."""

    address: HostPort | None = setting(
        "metrics.address",
        Optional(ListenerAddress()),
        default=None,
        about="Where the node answers plain HTTP: /metrics for Prometheus, /livez and /readyz for whoever "
        "supervises it. Without it nothing listens.",
        trade_off="Whoever reaches it reads the names of topics and groups, without a password and "
        "unencrypted; nothing can be changed there. 127.0.0.1 keeps it to this machine, where a collector "
        "elsewhere does not reach it.",
    )
    groups_interval_ms: int = setting(
        "metrics.groups.interval.ms",
        DurationMs(1_000, _HOUR_MS),
        default=15_000,
        about="How often a coordinator asks the leaders of partitions how far behind its groups are, while "
        "somebody reads /metrics. When nobody has for some minutes, nobody is asked.",
        trade_off="Shorter tells of a lag sooner; each round asks about every partition of every group, and "
        "reads a batch for each in which the group is behind.",
    )
    groups_partitions_max: int = setting(
        "metrics.groups.partitions.max",
        Integer(0, 1_000_000),
        default=20_000,
        about="Of how many partitions of groups a broker tells the lag, at most; every group counts as one "
        "more. A group that does not fit is left out as a whole; quorate_group_left_out_groups counts them.",
        trade_off="Each is three time series, which a collector has to keep, and takes some 30 µs of this "
        "broker's time whenever they are read; 0 leaves all groups out.",
    )
    topics_max: int = setting(
        "metrics.topics.max",
        Integer(0, 100_000),
        default=200,
        about="Of how many topics a broker tells numbers of their own, at most: how long writes take, and "
        "how large and how far behind replicas are. The others are left out; quorate_topic_left_out_topics "
        "counts them, and what is told of brokers and methods has all of them in it.",
        trade_off="Each is some twenty-five time series for every broker, which a collector has to keep; 0 "
        "leaves all topics out.",
    )

    def __post_init__(self) -> None:
        check_settings(self)


METRICS_SETTINGS: Final[tuple[Setting, ...]] = settings_of(MetricsConfig)
