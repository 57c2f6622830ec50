"""The settings of consumer groups: a part of a node's configuration, under Kafka's names where it has one.

Those of the topic of offsets are read where it is created, at the active controller; the rest by each broker
for the groups that it coordinates.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from quorate.core.config.kinds import ByteCount, DurationMs, Integer
from quorate.core.config.schema import Setting, check_settings, setting, settings_of
from quorate.core.limits import REPLICATION_FACTOR_MAX
from quorate.errors import InvalidConfig

__all__ = ["GROUP_SETTINGS", "GroupConfig"]

_INT32_MAX: Final = (1 << 31) - 1
_HOUR_MS: Final = 3_600_000
#: with fewer, one lost call would pass for a death
_BEATS_PER_SESSION: Final = 3
#: of __consumer_offsets: each is a coordinator of its own, and more than this nobody can keep apart
_PARTITIONS_MAX: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupConfig:
    """Every setting of groups."""

    offsets_topic_num_partitions: int = setting(
        "offsets.topic.num.partitions",
        Integer(1, _PARTITIONS_MAX),
        default=16,
        about="Partitions of __consumer_offsets, in which groups keep their state; the leader of a partition "
        "coordinates the groups in it. Read when the topic is created, and never again.",
        trade_off="More spread the groups over more brokers; each is a log that a new leader has to load.",
    )
    offsets_topic_replication_factor: int = setting(
        "offsets.topic.replication.factor",
        Integer(1, REPLICATION_FACTOR_MAX),
        default=3,
        about="Copies of __consumer_offsets. While fewer brokers are registered there are as many copies as "
        "brokers; the controller adds the others when brokers come.",
        trade_off="More copies survive more failures; every commit waits for those that are in sync.",
    )
    offsets_topic_segment_bytes: int = setting(
        "offsets.topic.segment.bytes",
        ByteCount(1 << 14, _INT32_MAX),
        default=16 << 20,
        about="Size of a segment file of __consumer_offsets. Read when the topic is created.",
        trade_off="Smaller ones are compacted sooner, so a new coordinator has less to load; they mean more "
        "files.",
    )
    offsets_retention_minutes: int = setting(
        "offsets.retention.minutes",
        Integer(1, _INT32_MAX),
        default=7 * 24 * 60,
        about="How long the offsets of a group are kept from when it has no members any more, or from the "
        "commit if that was later. Those of a group with members are kept for ever.",
        trade_off="Longer lets a consumer go on after a long holiday; groups that nobody uses stay as long.",
    )
    offsets_retention_check_interval_ms: int = setting(
        "offsets.retention.check.interval.ms",
        DurationMs(1_000, 24 * _HOUR_MS),
        default=600_000,
        about="How often offsets that have expired are looked for.",
        trade_off="More often frees memory sooner; each look goes through all groups.",
    )
    offset_metadata_bytes_max: int = setting(
        "offset.metadata.max.bytes",
        ByteCount(0, 1 << 16),
        default=4_096,
        about="Most bytes of text that may be committed with an offset.",
        trade_off="More gives applications room for state of their own; coordinators hold it in memory.",
    )
    session_timeout_ms: int = setting(
        "group.consumer.session.timeout.ms",
        DurationMs(100, _HOUR_MS),
        default=30_000,
        about="A member of a group that is not heard of for this long is removed, and others get its "
        "partitions. One whose process dies is noticed much sooner: group.consumer.reconnect.grace.ms.",
        trade_off="Shorter takes over sooner from a machine that hangs or is cut off; a pause then costs a "
        "member its partitions.",
    )
    heartbeat_interval_ms: int = setting(
        "group.consumer.heartbeat.interval.ms",
        DurationMs(10, _HOUR_MS),
        default=3_000,
        about="How long the coordinator keeps the call of a member when there is nothing to tell it.",
        trade_off="At most a third of group.consumer.session.timeout.ms. News do not wait for it, so shorter "
        "only costs calls; much longer, and a connection that died silently is noticed late.",
    )
    reconnect_grace_ms: int = setting(
        "group.consumer.reconnect.grace.ms",
        DurationMs(0, _HOUR_MS),
        default=500,
        about="A member whose waiting call breaks off, as it does when its process dies, is removed unless "
        "it is heard of again within this time. Static members have their whole session.",
        trade_off="Shorter takes over sooner from a process that died; a connection that breaks and takes "
        "longer to be made again then moves partitions for nothing.",
    )
    members_max: int = setting(
        "group.consumer.max.size",
        Integer(1, 100_000),
        default=1_000,
        about="Most members of one group; more are refused with GROUP_MAX_SIZE_REACHED.",
        trade_off="Every change of a group looks at all its members; each also has a waiting call, of which "
        "a broker keeps queued.max.requests.",
    )
    groups_max: int = setting(
        "group.max.count",
        Integer(1, 10_000_000),
        default=10_000,
        about="Most groups that one broker coordinates; more are refused with GROUP_MAX_SIZE_REACHED.",
        trade_off="A bound keeps clients that make up names from exhausting memory.",
    )

    def __post_init__(self) -> None:
        check_settings(self)
        if self.heartbeat_interval_ms * _BEATS_PER_SESSION > self.session_timeout_ms:
            raise InvalidConfig(
                f"group.consumer.heartbeat.interval.ms: {self.heartbeat_interval_ms} ms is more than a third "
                f"of group.consumer.session.timeout.ms={self.session_timeout_ms}; lower the one or raise the "
                "other",
                key="group.consumer.heartbeat.interval.ms",
            )


GROUP_SETTINGS: Final[tuple[Setting, ...]] = settings_of(GroupConfig)
