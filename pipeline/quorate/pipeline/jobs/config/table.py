"""What the job ``table`` is told."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from quorate.core.config.kinds import Choice, Integer
from quorate.core.config.schema import REQUIRED, setting
from quorate.pipeline.jobs.config.base import StoreFormat, StreamingConfig
from quorate.pipeline.jobs.config.kinds import SharedPath, TopicNames

__all__ = ["GrownTopic", "NullKeys", "TableConfig"]


class NullKeys(StrEnum):
    FAIL = "fail"
    SKIP = "skip"


class GrownTopic(StrEnum):
    FAIL = "fail"
    TAKE = "take"


@dataclass(frozen=True, kw_only=True)
class TableConfig(StreamingConfig):
    """The latest value of each key of a topic, as a table."""

    topic: tuple[str, ...] = setting(
        "topic",
        TopicNames(1),
        default=REQUIRED,
        about="Whose latest values are kept.",
        trade_off="A compacted topic holds them for ever; of another one, keys stay in the table after it "
        "has forgotten them.",
    )
    path: str = setting(
        "path",
        SharedPath(),
        default=REQUIRED,
        about="Where the table is, for the driver and for every worker.",
        trade_off="A file system with atomic renames and hard links: local, NFS, a persistent volume.",
    )
    store_format: StoreFormat = setting(
        "format",
        Choice(StoreFormat),
        default=StoreFormat.PARQUET,
        about="What is written. Of Parquet the table is `PATH/current`.",
        trade_off="Delta keeps old versions and changes what is needed; Parquet needs nothing to read it.",
    )
    buckets: int = setting(
        "buckets",
        Integer(1, 10_000),
        default=16,
        about="Into how many files the keys of a Parquet table are spread; fixed when it is made.",
        trade_off="A batch rewrites the buckets that it changes: more of them rewrite less, in more files.",
    )
    null_keys: NullKeys = setting(
        "null.keys",
        Choice(NullKeys),
        default=NullKeys.FAIL,
        about="What to do with records that have no key.",
        trade_off="`skip` leaves them out of the table and says how many.",
    )

    grown_topic: GrownTopic = setting(
        "grown.topic",
        Choice(GrownTopic),
        default=GrownTopic.FAIL,
        about="What to do when the topic has more partitions than when the table was begun.",
        trade_off="`take` goes on: for writers that choose the partition of a key themselves. A key that "
        "moves has a row of each of its partitions then.",
    )

    @property
    def checkpoint(self) -> str:
        return self.checkpoint_dir or f"{self.path}/_checkpoint"
