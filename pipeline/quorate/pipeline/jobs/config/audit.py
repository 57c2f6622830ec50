"""What the job ``audit`` is told."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from quorate.core.config.kinds import Choice, Integer, Optional
from quorate.core.config.schema import REQUIRED, setting
from quorate.errors import InvalidConfig
from quorate.pipeline.jobs.config.base import JobConfig
from quorate.pipeline.jobs.config.kinds import SharedPath, Text

__all__ = ["AuditConfig", "LogFrom"]


class LogFrom(StrEnum):
    CLUSTER = "cluster"
    HISTORY = "history"
    ARCHIVE = "archive"


@dataclass(frozen=True, kw_only=True)
class AuditConfig(JobConfig):
    """A drill's ledger against the log: what is lost, twice, out of order, or should not be there.

    Exit status: 0 passed, 1 promises are broken, 3 no verdict, as it could not look.
    """

    ledger: str = setting(
        "ledger",
        Text("the report directory of a drill, or its history.jsonl"),
        default=REQUIRED,
        about="What producers did and were told.",
        trade_off="A drill that was killed has one as well.",
    )
    log_from: LogFrom = setting(
        "log",
        Choice(LogFrom),
        default=LogFrom.CLUSTER,
        about="What the log holds: read from the cluster, by the last reader in the ledger, or from an "
        "archive.",
        trade_off="`history` needs no cluster, and trusts that reader.",
    )
    path: str | None = setting(
        "path",
        Optional(SharedPath()),
        default=None,
        about="The archive (Parquet), with `log=archive`.",
        trade_off="It has to hold the drill's topics from their beginning.",
    )
    examples: int = setting(
        "examples",
        Integer(0, 1000),
        default=10,
        about="How many of each kind of finding are shown.",
        trade_off="All of them are counted.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.path is not None) != (self.log_from is LogFrom.ARCHIVE):
            raise InvalidConfig("path: it goes with log=archive, and log=archive needs it")
