"""What the job ``replay`` is told."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from quorate.core.config.kinds import INT64_MAX, Choice, Integer, Optional
from quorate.core.config.schema import REQUIRED, setting
from quorate.errors import InvalidConfig
from quorate.pipeline.jobs.config.base import JobConfig, StoreFormat
from quorate.pipeline.jobs.config.kinds import SharedPath, Time, TopicNames

__all__ = ["Placement", "ReplayConfig"]


class Placement(StrEnum):
    KEEP = "keep"
    BY_KEY = "by-key"


@dataclass(frozen=True, kw_only=True)
class ReplayConfig(JobConfig):
    """From the archive back into a topic, in order, with keys, headers and timestamps."""

    path: str = setting(
        "path",
        SharedPath(),
        default=REQUIRED,
        about="Where the archive is.",
        trade_off="It may be written to meanwhile; what comes after the start is left out.",
    )
    store_format: StoreFormat = setting(
        "format",
        Choice(StoreFormat),
        default=StoreFormat.PARQUET,
        about="What the archive is.",
        trade_off="As the job was told that has written it.",
    )
    topic: tuple[str, ...] = setting(
        "topic",
        TopicNames(1),
        default=REQUIRED,
        about="Which topic of the archive.",
        trade_off="One at a time: others can run beside it.",
    )
    to_topic: tuple[str, ...] = setting(
        "to.topic",
        TopicNames(1),
        default=REQUIRED,
        about="Where the records go; it has to exist.",
        trade_off="A topic of its own shows what was replayed; the old one mixes it with what is there.",
    )
    checkpoint_dir: str = setting(
        "checkpoint.dir",
        SharedPath(),
        default=REQUIRED,
        about="Where the job notes how far it is.",
        trade_off="A new one replays everything again.",
    )
    from_time: datetime | None = setting(
        "from.time",
        Optional(Time()),
        default=None,
        about="The first timestamp that is replayed; nothing: from the beginning.",
        trade_off="Timestamps are the producers': records in order of offset need not be in order of time.",
    )
    until_time: datetime | None = setting(
        "until.time",
        Optional(Time()),
        default=None,
        about="Timestamps are below this; nothing: to the end.",
        trade_off="Whole days read the least: the archive is sorted by date.",
    )
    rows_per_second_max: int | None = setting(
        "max.rows.per.second",
        Optional(Integer(1, INT64_MAX)),
        default=None,
        about="How fast, over all partitions; nothing: as fast as it goes.",
        trade_off="A limit leaves the brokers time for others.",
    )
    rows_per_chunk_max: int = setting(
        "max.rows.per.chunk",
        Integer(1, INT64_MAX),
        default=200_000,
        about="How many records are written between two notes in the checkpoint.",
        trade_off="Larger chunks cost less, and more is looked through after a kill.",
    )
    placement: Placement = setting(
        "partitions",
        Choice(Placement),
        default=Placement.KEEP,
        about="Into the partition that a record was in, or the one that its key belongs to.",
        trade_off="`keep` needs as many partitions as the topic had; `by-key` keeps the order of each key "
        "only.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.from_time and self.until_time and self.from_time >= self.until_time:
            raise InvalidConfig("until.time: nothing lies between it and from.time")
