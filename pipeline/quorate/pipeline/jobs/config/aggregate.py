"""What the job ``aggregate`` is told."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from quorate.core.config.kinds import Choice, Optional
from quorate.core.config.schema import REQUIRED, setting
from quorate.errors import InvalidConfig
from quorate.pipeline.jobs.config.base import StreamingConfig
from quorate.pipeline.jobs.config.kinds import (
    EVENT_TIME,
    RECORD_KEY,
    Field,
    SharedPath,
    TopicNames,
    Window,
    Words,
    seconds_of,
)

__all__ = ["AggregateConfig", "Emit"]


class Emit(StrEnum):
    UPDATES = "updates"
    FINAL = "final"


@dataclass(frozen=True, kw_only=True)
class AggregateConfig(StreamingConfig):
    """Counts and sums per key and window of event time, into a topic."""

    topics: tuple[str, ...] = setting(
        "topics",
        TopicNames(),
        default=REQUIRED,
        about="What is counted.",
        trade_off="The records of all of them make one stream.",
    )
    to_topic: tuple[str, ...] = setting(
        "to.topic",
        TopicNames(1),
        default=REQUIRED,
        about="Where the results go; it has to exist.",
        trade_off="With `cleanup.policy=compact` it keeps the last word on each window.",
    )
    checkpoint_dir: str = setting(
        "checkpoint.dir",
        SharedPath(),
        default=REQUIRED,
        about="Where the job notes how far it is, and what it has counted.",
        trade_off="On disks that survive, for the driver and for every worker: without it a job begins "
        "again.",
    )
    window: str = setting(
        "window",
        Window(),
        default="1 minute",
        about="The length of a window.",
        trade_off="Shorter windows are more of them, each with its own state.",
    )
    slide: str | None = setting(
        "slide",
        Optional(Window()),
        default=None,
        about="How far apart windows begin; nothing: each begins where the one before ends.",
        trade_off="A record is counted in every window that it falls into.",
    )
    watermark: str = setting(
        "watermark",
        Window(),
        default="1 minute",
        about="How late a record may be, after the latest one seen.",
        trade_off="Longer counts more of the late ones, keeps more state, and ends windows later.",
    )
    event_time: str = setting(
        "event.time",
        Field(EVENT_TIME),
        default=EVENT_TIME,
        about="When a record happened.",
        trade_off="The record's own timestamp is always there; a field is what the application means.",
    )
    group_by: str = setting(
        "group.by",
        Field(RECORD_KEY),
        default=RECORD_KEY,
        about="By what records are counted.",
        trade_off="Each different value costs state for as long as its windows are open.",
    )
    sums: tuple[str, ...] = setting(
        "sum",
        Words(Field()),
        default=(),
        about="Numbers to add up, exact to nine decimals; where there is none, nothing is added.",
        trade_off="Only values that are JSON have fields.",
    )
    emit: Emit = setting(
        "emit",
        Choice(Emit),
        default=Emit.UPDATES,
        about="A result whenever a window changes, or one for each window when it can change no more.",
        trade_off="`final` writes less, and later by the watermark; a window at the end of the data stays "
        "open.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.slide is not None and seconds_of(self.slide) > seconds_of(self.window):
            raise InvalidConfig(
                f"slide: {self.slide} is longer than the window ({self.window}): records between two windows "
                f"would be in none",
                key="slide",
            )
        if self.to_topic[0] in self.topics:
            raise InvalidConfig(f"to.topic: {self.to_topic[0]} is read, too: it would count its own results")

    @property
    def checkpoint(self) -> str:
        return self.checkpoint_dir
