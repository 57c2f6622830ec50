"""How far a job is: rows, rate, lag."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

from quorate.core.ids import TopicPartition
from quorate.pipeline.source.positions import Positions

__all__ = ["Progress", "lag_between", "progress_of"]


@dataclass(frozen=True, slots=True)
class Progress:
    batch: int
    #: of this batch
    rows: int
    #: as Spark measured this batch
    rows_per_s: float
    #: records that are there and not done yet; None: not known
    lag: int | None
    #: of all batches of this run
    rows_in_all: int = 0

    def adding_up_to(self, rows: int) -> Progress:
        return replace(self, rows_in_all=rows)

    def __str__(self) -> str:
        lag = "lag unknown" if self.lag is None else f"lag {self.lag:,}"
        return f"batch {self.batch}: {self.rows_in_all:,} rows, {self.rows_per_s:,.0f}/s, {lag}"


def progress_of(told: Mapping[str, Any]) -> Progress:
    """From Spark's own report on a batch."""
    lags = [lag_between(source["endOffset"], source["latestOffset"]) for source in told["sources"]]
    known = [lag for lag in lags if lag is not None]
    return Progress(
        batch=told["batchId"],
        rows=told["numInputRows"],
        rows_per_s=told["processedRowsPerSecond"] or 0.0,
        lag=sum(known) if len(known) == len(lags) else None,
    )


def lag_between(end: object, latest: object) -> int | None:
    """Records between two positions in a stream, as the source tells them; None: one of them is not told."""
    done, there = _offsets(end), _offsets(latest)
    if done is None or there is None:
        return None
    return sum(max(0, offset - done.get(partition, 0)) for partition, offset in there.items())


def _offsets(told: object) -> Mapping[TopicPartition, int] | None:
    try:
        document = json.loads(told) if isinstance(told, str) else told
        return Positions.from_json(cast("Mapping[str, Any]", document)).offsets
    except (AttributeError, KeyError, TypeError, ValueError):
        return None
