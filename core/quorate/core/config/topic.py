"""The settings of a topic, and where the value comes from when a topic does not set its own.

A topic carries only what was set for it. Everything else follows the cluster's defaults, which are kept in
the metadata beside the topics, and what is not set there either follows one of two:

- *How a replica keeps its log* (retention, segments, …) follows the node's ``log.*`` keys, also when those
  change later. Two brokers may differ in it without harm.
- *How many copies make a record safe* (``CLUSTER_KEYS``) has no key at the node: the controller and the
  leader have to see one and the same value, or a replica that the one counts as complete may lack what the
  other has acknowledged (rule 29). A node's file that names such a key is refused.

What all topics share (``NO_TOPIC_KEYS``) is set for the cluster alone.

Names are Kafka's at every level, where Kafka has one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final

from quorate.core.config.kinds import (
    INT64_MAX,
    ByteCount,
    Choice,
    Choices,
    DurationMs,
    Flag,
    Integer,
    Ratio,
)
from quorate.core.config.loader import resolve
from quorate.core.config.schema import Setting, check_settings, setting, settings_of
from quorate.core.config.sources import RawValue
from quorate.core.limits import REPLICATION_FACTOR_MAX

__all__ = [
    "CLUSTER_KEYS",
    "DURABILITY",
    "FOLLOWER_REPLICATION_THROTTLED_RATE",
    "MIN_INSYNC_REPLICAS",
    "NODE_KEYS",
    "NO_TOPIC_KEYS",
    "TOPIC_SETTINGS",
    "UNCLEAN_LEADER_ELECTION_ENABLE",
    "CleanupPolicy",
    "CompressionType",
    "Durability",
    "TopicConfig",
]

DURABILITY: Final = "durability"
FOLLOWER_REPLICATION_THROTTLED_RATE: Final = "follower.replication.throttled.rate"
MIN_INSYNC_REPLICAS: Final = "min.insync.replicas"
UNCLEAN_LEADER_ELECTION_ENABLE: Final = "unclean.leader.election.enable"

_INT32_MAX: Final = (1 << 31) - 1
# Storage takes a longer batch for damage (quorate.storage.recovery.BATCH_BYTES_MAX).
_BATCH_BYTES_MAX: Final = 128 << 20
_DAY_MS: Final = 86_400_000


class Durability(StrEnum):
    """When an append counts as stored on a replica."""

    REPLICATED = "replicated"
    FSYNC = "fsync"


class CleanupPolicy(StrEnum):
    """What becomes of old records."""

    COMPACT = "compact"
    DELETE = "delete"


class CompressionType(StrEnum):
    """How batches are stored."""

    PRODUCER = "producer"


_NO_RECOMPRESSION: Final = (
    "brokers store batches as they come; leave the topic at producer and choose the compression at the "
    "producers (compression=…, quorate produce --compression …)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicConfig:
    """Every setting of one topic."""

    retention_ms: int = setting(
        "retention.ms",
        DurationMs(0, INT64_MAX, unlimited=True),
        default=7 * _DAY_MS,
        about="How long records are kept. Whole segments go, once their newest record is older than this.",
        trade_off="Longer lets slow or new consumers catch up and replay; it costs disk in proportion.",
    )
    retention_bytes: int = setting(
        "retention.bytes",
        ByteCount(0, INT64_MAX, unlimited=True),
        default=-1,
        about="How many bytes a partition may hold before its oldest segments are deleted.",
        trade_off="A limit keeps the disk from filling up; a burst then pushes records out early.",
    )
    cleanup_policy: tuple[CleanupPolicy, ...] = setting(
        "cleanup.policy",
        Choices(CleanupPolicy),
        default=(CleanupPolicy.DELETE,),
        about="What becomes of old records: delete removes whole segments by age (retention.ms) and size "
        "(retention.bytes); compact keeps at least the latest record of every key, and removes what it has "
        "replaced; compact,delete does both. Records without a key are refused where compact is set.",
        trade_off="delete forgets by age, whatever is still true; compact keeps the last word on every key "
        "however old it is, and spends processor and disk on reading and writing segments again.",
    )
    delete_retention_ms: int = setting(
        "delete.retention.ms",
        DurationMs(0, INT64_MAX),
        default=_DAY_MS,
        about="How long compaction keeps a tombstone (a record with a key and no value), counted from when "
        "compaction has removed what it deletes.",
        trade_off="A consumer that begins at the start and takes longer than this to reach the end may see a "
        "record and never its deletion; longer keeps tombstones that nobody needs any more.",
    )
    min_cleanable_dirty_ratio: float = setting(
        "min.cleanable.dirty.ratio",
        Ratio(),
        default=0.5,
        about="How much of a log's closed segments has to be new since the last compaction before the next.",
        trade_off="Less keeps fewer replaced records on disk; every compaction writes the whole log again.",
    )
    min_compaction_lag_ms: int = setting(
        "min.compaction.lag.ms",
        DurationMs(0, INT64_MAX),
        default=0,
        about="How old the newest record of a segment has to be before compaction looks at the segment.",
        trade_off="A consumer that is never further behind than this sees every record, also those that are "
        "replaced later; they take up space for as long.",
    )
    segment_bytes: int = setting(
        "segment.bytes",
        ByteCount(1 << 14, _INT32_MAX),
        default=1 << 30,
        about="Size at which a segment file is closed and a new one begun.",
        trade_off="Smaller segments let retention work more finely; they mean more files and more rolls.",
    )
    segment_ms: int = setting(
        "segment.ms",
        DurationMs(1, INT64_MAX),
        default=7 * _DAY_MS,
        about="Age at which a segment is closed even if it is small, counted from its first record.",
        trade_off="Sooner lets retention reach the records of a quiet partition; it means more small files.",
    )
    max_message_bytes: int = setting(
        "max.message.bytes",
        ByteCount(128, _BATCH_BYTES_MAX),
        default=1_048_588,
        about="Largest record batch that is accepted, in bytes as stored (after compression).",
        trade_off="Larger batches carry large records; each is held in memory by everyone who handles it.",
    )
    compression_type: CompressionType = setting(
        "compression.type",
        Choice(
            CompressionType,
            instead=dict.fromkeys(
                ["uncompressed", "none", "gzip", "snappy", "lz4", "zstd"], _NO_RECOMPRESSION
            ),
        ),
        default=CompressionType.PRODUCER,
        about="How batches are stored: producer keeps each as its producer compressed it. Brokers never "
        "compress anew, so the other values of Kafka do not exist.",
        trade_off="None, as there is one value: a broker that compressed anew would spend its processor on "
        "what producers do among themselves.",
    )
    index_interval_bytes: int = setting(
        "index.interval.bytes",
        ByteCount(64, _INT32_MAX),
        default=4_096,
        about="Bytes of batches between two entries of the offset index.",
        trade_off="Denser entries shorten the scan at the start of a read; they make the index larger.",
    )
    message_timestamp_before_max_ms: int = setting(
        "message.timestamp.before.max.ms",
        DurationMs(0, INT64_MAX, unlimited=True),
        default=-1,
        about="How far behind the broker's clock the first timestamp of a batch may lie.",
        trade_off="A limit keeps out records that retention would delete at once; it also keeps out replays "
        "of old data with their original times.",
    )
    message_timestamp_after_max_ms: int = setting(
        "message.timestamp.after.max.ms",
        DurationMs(0, INT64_MAX, unlimited=True),
        default=3_600_000,
        about="How far ahead of the broker's clock the latest timestamp of a batch may lie.",
        trade_off="A record from the far future keeps its segment from expiring, so this should stay small; "
        "it must allow for senders whose clocks are wrong.",
    )
    durability: Durability = setting(
        DURABILITY,
        Choice(Durability),
        default=Durability.REPLICATED,
        about="When a replica may count an append: once it is in the page cache (replicated), or once it was "
        "synced to the device (fsync, one sync for all that wait).",
        trade_off="replicated is fast and survives any number of process crashes, but a single replica does "
        "not survive a power loss; fsync survives that too, and every answer waits for the device.",
    )
    min_insync_replicas: int = setting(
        MIN_INSYNC_REPLICAS,
        Integer(1, REPLICATION_FACTOR_MAX),
        default=2,
        about="Replicas that must be in sync before a record counts as committed and acks=all is answered. "
        "Where a partition has fewer replicas than that, all of them must be.",
        trade_off="One less than this many replicas may lose their disks or unsynced data at the same moment "
        "without loss of an acknowledged record; with fewer than this many in sync, writes are refused.",
    )
    unclean_leader_election_enable: bool = setting(
        UNCLEAN_LEADER_ELECTION_ENABLE,
        Flag(),
        default=False,
        about="Whether a replica that may lack acknowledged records can become leader when no other is left.",
        trade_off="TRUE GIVES UP THE PROMISE THAT NO ACKNOWLEDGED RECORD IS LOST: the partition serves again "
        "sooner, and whatever the new leader lacks is gone from every replica. Leave it false; for a single "
        "emergency there is `quorate partition recover`, which first looks for the most complete replica.",
    )
    follower_replication_throttled_rate: int = setting(
        FOLLOWER_REPLICATION_THROTTLED_RATE,
        ByteCount(1 << 10, INT64_MAX, unlimited=True),
        default=-1,
        about="Bytes per second that a broker takes, in all, for replicas that a reassignment adds to it and "
        "that have not caught up. Set for the cluster, not for a topic. Other replicas are never held up.",
        trade_off="A limit keeps a large move from taking network and disk from everybody else; below the "
        "rate at which producers write, the move never ends.",
    )

    def __post_init__(self) -> None:
        check_settings(self)

    @property
    def is_compacted(self) -> bool:
        return CleanupPolicy.COMPACT in self.cleanup_policy

    def with_overrides(self, overrides: Mapping[str, str]) -> TopicConfig:
        """This configuration with a topic's own settings; ``InvalidConfig`` names what is refused."""
        raw = [RawValue(key, text, "topic configuration") for key, text in overrides.items()]
        values: dict[str, Any] = resolve(TOPIC_SETTINGS, [raw])
        return replace(self, **{_ATTRIBUTES[key]: value for key, value in values.items()})

    def rendered(self) -> dict[str, str]:
        """Every setting by key, as text that could be set."""
        return {each.key: each.kind.render(getattr(self, each.attribute)) for each in TOPIC_SETTINGS}


TOPIC_SETTINGS: Final[tuple[Setting, ...]] = settings_of(TopicConfig)

_ATTRIBUTES: Final = {each.key: each.attribute for each in TOPIC_SETTINGS}

#: topic key -> the node's key for the default, for what may differ from node to node
NODE_KEYS: Final[Mapping[str, str]] = {
    "retention.ms": "log.retention.ms",
    "retention.bytes": "log.retention.bytes",
    "cleanup.policy": "log.cleanup.policy",
    "delete.retention.ms": "log.cleaner.delete.retention.ms",
    "min.cleanable.dirty.ratio": "log.cleaner.min.cleanable.ratio",
    "min.compaction.lag.ms": "log.cleaner.min.compaction.lag.ms",
    "segment.bytes": "log.segment.bytes",
    "segment.ms": "log.roll.ms",
    "max.message.bytes": "message.max.bytes",
    "compression.type": "compression.type",
    "index.interval.bytes": "log.index.interval.bytes",
    "message.timestamp.before.max.ms": "log.message.timestamp.before.max.ms",
    "message.timestamp.after.max.ms": "log.message.timestamp.after.max.ms",
}

#: what has no default at a node, because it must be one value for everybody (rule 29)
CLUSTER_KEYS: Final = frozenset(each.key for each in TOPIC_SETTINGS) - NODE_KEYS.keys()

#: what a topic cannot set for itself, because it is shared by all topics
NO_TOPIC_KEYS: Final = frozenset({FOLLOWER_REPLICATION_THROTTLED_RATE})
