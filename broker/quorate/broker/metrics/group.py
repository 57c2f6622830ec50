"""Consumer groups in numbers, each told by the broker that coordinates it and by nobody else."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from quorate.broker.groups.coordinator import GroupCoordinator
from quorate.broker.groups.lag import Lag
from quorate.broker.groups.lag_watch import GroupSnapshot, LagWatch
from quorate.core.metrics import Metric, MetricKind, Reading, Sample
from quorate.v1.group_pb2 import (
    GROUP_STATE_EMPTY,
    GROUP_STATE_RECONCILING,
    GROUP_STATE_STABLE,
)

__all__ = ["METRICS", "GroupMetrics"]

_PARTITION: Final = ("group", "topic", "partition")

LAG_RECORDS: Final = Metric(
    "quorate_group_lag_records",
    MetricKind.GAUGE,
    "Records that the group has not committed yet, up to the high watermark. Where it has committed nothing: "
    "all there are.",
    _PARTITION,
)
LAG_SECONDS: Final = Metric(
    "quorate_group_lag_seconds",
    MetricKind.GAUGE,
    "How old the oldest record is that the group has not committed yet; 0 where there is none.",
    _PARTITION,
)
LAG_RETENTION_RATIO: Final = Metric(
    "quorate_group_lag_retention_ratio",
    MetricKind.GAUGE,
    "The lag as a share of what the topic keeps, in time or in bytes, whichever is larger. At 1 records are "
    "deleted that the group has not read. Not there for a topic that keeps its records for ever.",
    _PARTITION,
)
MEMBERS: Final = Metric("quorate_group_members", MetricKind.GAUGE, "Members of the group.", ("group",))
STATE: Final = Metric(
    "quorate_group_state_info",
    MetricKind.INFO,
    "What the group is doing: empty, reconciling (partitions go from one member to another) or stable.",
    ("group", "state"),
)
COORDINATED: Final = Metric(
    "quorate_group_coordinated_groups", MetricKind.GAUGE, "Groups that this broker coordinates."
)
LEFT_OUT: Final = Metric(
    "quorate_group_left_out_groups",
    MetricKind.GAUGE,
    "Groups of which this broker tells nothing, because metrics.groups.partitions.max is reached.",
)
UNKNOWN: Final = Metric(
    "quorate_group_lag_unknown_partitions",
    MetricKind.GAUGE,
    "Partitions of groups whose lag is missing, because their leader did not answer or there is none.",
)
LAG_AGE: Final = Metric(
    "quorate_group_lag_age_seconds",
    MetricKind.GAUGE,
    "How old the numbers about groups are. Not there until a coordinator has looked.",
)

METRICS: Final = (
    LAG_RECORDS,
    LAG_SECONDS,
    LAG_RETENTION_RATIO,
    MEMBERS,
    STATE,
    COORDINATED,
    LEFT_OUT,
    UNKNOWN,
    LAG_AGE,
)

_STATES: Final = {
    GROUP_STATE_EMPTY: "empty",
    GROUP_STATE_RECONCILING: "reconciling",
    GROUP_STATE_STABLE: "stable",
}


class GroupMetrics:
    def __init__(self, coordinator: GroupCoordinator, watch: LagWatch) -> None:
        self._coordinator = coordinator
        self._watch = watch

    async def look(self) -> None:
        await self._watch.want()

    def read(self) -> Iterator[Reading]:
        yield Reading(COORDINATED, [Sample((), sum(len(each.groups) for each in self._coordinator.loaded()))])
        snapshot = self._watch.latest()
        if snapshot is None:
            return
        groups = snapshot.groups()
        yield Reading(LAG_RECORDS, _of_partitions(groups, lambda lag: lag.records))
        yield Reading(LAG_SECONDS, _of_partitions(groups, lambda lag: _seconds(lag.ms)))
        yield Reading(LAG_RETENTION_RATIO, _of_partitions(groups, lambda lag: lag.of_retention))
        yield Reading(MEMBERS, (Sample((each.name,), each.members) for each in groups))
        yield Reading(STATE, (Sample((each.name, _STATES[each.state]), 1) for each in groups))
        yield Reading(LEFT_OUT, [Sample((), snapshot.left_out)])
        yield Reading(UNKNOWN, [Sample((), _count_unknown(groups))])
        yield Reading(LAG_AGE, [Sample((), self._watch.age_s(snapshot))])


def _of_partitions(groups: Sequence[GroupSnapshot], value: Callable[[Lag], float | None]) -> Iterator[Sample]:
    for group in groups:
        for topic, partition, lag in group.partitions:
            found = None if lag is None else value(lag)
            if found is not None:
                yield Sample((group.name, topic, str(partition)), found)


def _seconds(lag_ms: int | None) -> float | None:
    return None if lag_ms is None else lag_ms / 1000


def _count_unknown(groups: Sequence[GroupSnapshot]) -> int:
    return sum(each.lag is None for group in groups for each in group.partitions)
