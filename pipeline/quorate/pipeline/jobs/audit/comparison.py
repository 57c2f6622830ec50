"""What was promised and what is there, side by side.

A value names its record: it is unique among all that were sent. Each kind of finding is one question to the
two tables, and all of them together are one pass.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from quorate.errors import InvalidRequest
from quorate.pipeline.jobs.audit.reading import Teller, rows_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["PROMISED", "AuditReport", "Finding", "FindingKind", "compare"]

#: of what was sent: what the log has to hold, from where it begins
PROMISED: Final = "is_current AND outcome = 'acknowledged' AND acks = 'all'"
_VALUE_CHARACTERS_MAX: Final = 60


class FindingKind(StrEnum):
    """In the order of a report: the worst first."""

    #: acknowledged by all in sync, and nowhere in the log
    LOST = "lost"
    #: acknowledged, and at another offset than was said
    MISPLACED = "misplaced"
    #: in the log more than once, though its producer is idempotent
    DUPLICATED = "duplicated"
    #: in the log after a record that its producer sent later
    REORDERED = "reordered"
    #: refused, and in the log nevertheless
    REFUSED = "refused-yet-there"
    #: in the log, and never sent to this topic
    INVENTED = "invented"
    #: one offset, shown twice
    OFFSET_TWICE = "offset-twice"


@dataclass(frozen=True, slots=True)
class Finding:
    kind: FindingKind
    count: int
    examples: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AuditReport:
    #: one for each kind
    findings: tuple[Finding, ...]
    sent: int
    #: with acks=all, and not below where the log begins
    acknowledged: int
    #: acknowledged as well, but below where the log begins now: nobody can be asked about these
    not_asked: int
    in_log: int

    @property
    def passed(self) -> bool:
        return not any(each.count for each in self.findings)

    def count(self, kind: FindingKind) -> int:
        return next(each.count for each in self.findings if each.kind is kind)


def compare(
    sent: DataFrame,
    log: DataFrame,
    starts: Mapping[tuple[str, int], int],
    *,
    examples_max: int,
    log_rows: int | None = None,
    teller: Teller | None = None,
) -> AuditReport:
    """``sent``: as ``Ledger`` has it.

    ``log``: of whole partitions, from ``starts`` on; others are not asked about. ``log_rows``: how many it
    has, about, as its offsets say.
    """
    from pyspark.sql import functions as f

    spark = sent.sparkSession
    begins = spark.createDataFrame(
        [(topic, partition, start) for (topic, partition), start in starts.items()],
        "topic string, partition int, log_start long",
    )
    asked = sent.join(f.broadcast(begins), ["topic", "partition"]).persist()
    held = log.select(
        "topic", "partition", "offset", f.coalesce("value", f.lit(b"")).alias("value")
    ).persist()
    try:
        in_ledger = rows_of(asked, "the ledger", teller, here=None, later=log_rows)
        all_promised = asked.where(PROMISED)
        promised = all_promised.where("offset >= log_start")
        acknowledged, not_asked = _within_the_log(all_promised)
        in_log = rows_of(held, "the log", teller, here=log_rows, later=0)
        found = _findings(asked, promised, held)
        return AuditReport(
            _collected(found, examples_max),
            in_ledger,
            acknowledged=acknowledged,
            not_asked=not_asked,
            in_log=in_log,
        )
    finally:
        asked.unpersist()
        held.unpersist()


def _within_the_log(promised: DataFrame) -> tuple[int, int]:
    """How many there are from where the log begins, and how many below.

    A partition that has to hold something, and of which nobody can be asked about anything, would pass for
    whole with an empty log.
    """
    from pyspark.sql import functions as f

    is_below = f.col("offset") < f.col("log_start")
    counted = promised.groupBy("topic", "partition", "log_start").agg(
        f.count_if(~is_below).alias("asked"), f.count_if(is_below).alias("below")
    )
    rows = counted.orderBy("topic", "partition").collect()
    for row in rows:
        if not row["asked"]:
            raise InvalidRequest(
                f"{row['topic']}-{row['partition']} begins at offset {row['log_start']}, behind all of the "
                f"{row['below']:,} records that were acknowledged: there is nothing left to be asked about, "
                f"so there is no verdict. Audit it before records are deleted, or an archive of it "
                f"(--log archive)",
                topic=row["topic"],
                partition=row["partition"],
                offset=row["log_start"],
            )
    return sum(row["asked"] for row in rows), sum(row["below"] for row in rows)


def _findings(asked: DataFrame, promised: DataFrame, held: DataFrame) -> DataFrame:
    """Rows of a kind, a place, a value, and the rest of the sentence."""
    from pyspark.sql import functions as f

    where = ["topic", "partition", "value"]
    once = held.groupBy(*where).agg(f.min("offset").alias("place"), f.count("*").alias("times"))
    may_be_there = asked.where("NOT is_former")
    idempotent = may_be_there.where("acks = 'all'")
    parts = {
        FindingKind.LOST: promised.join(once, where, "left_anti").withColumn(
            "words", _words("was acknowledged at", "offset")
        ),
        FindingKind.MISPLACED: promised.join(once, where)
        .join(held, [*where, "offset"], "left_anti")
        .withColumn(
            "words", f.concat(_words("is at", "place"), _words(" and was acknowledged at", "offset"))
        ),
        FindingKind.DUPLICATED: once.where("times > 1")
        .join(idempotent, where, "left_semi")
        .withColumn("words", f.concat(_words("is first at", "place"), _words(", times:", "times")))
        .withColumn("again", f.explode(f.sequence(f.lit(2), f.col("times")))),
        FindingKind.REORDERED: _reordered(idempotent.where("is_current").join(once, where)),
        FindingKind.REFUSED: may_be_there.where("outcome = 'refused'")
        .join(once, where)
        .withColumn("words", f.concat(_words("is at", "place"), f.lit(", and was refused"))),
        FindingKind.INVENTED: held.join(may_be_there, where, "left_anti").withColumn(
            "words", _words("was never sent there, and is at", "offset")
        ),
        FindingKind.OFFSET_TWICE: held.groupBy("topic", "partition", "offset")
        .agg(f.count("*").alias("times"), f.first("value").alias("value"))
        .where("times > 1")
        .withColumn("words", f.concat(_words("was shown more than once at", "offset"))),
    }
    told = [
        frame.select(f.lit(kind.value).alias("kind"), "topic", "partition", "value", "words")
        for kind, frame in parts.items()
    ]
    union = told[0]
    for each in told[1:]:
        union = union.unionByName(each)
    return union


def _reordered(placed: DataFrame) -> DataFrame:
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    in_log = Window.partitionBy("topic", "partition", "producer").orderBy("place")
    before = in_log.rowsBetween(Window.unboundedPreceding, -1)
    return (
        placed.withColumn("latest_before", f.max("number").over(before))
        .where("number < latest_before")
        .withColumn(
            "words",
            f.concat(
                _words("is at", "place"), _words(", after its producer's later record", "latest_before")
            ),
        )
    )


def _words(text: str, column: str) -> Column:
    from pyspark.sql import functions as f

    return f.concat(f.lit(f"{text} "), f.col(column).cast("string"))


def _collected(found: DataFrame, examples_max: int) -> tuple[Finding, ...]:
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    of_kind = Window.partitionBy("kind")
    ordered = of_kind.orderBy("topic", "partition", "value")
    rows = (
        found.withColumn("count", f.count("*").over(of_kind))
        .withColumn("nth", f.row_number().over(ordered))
        .where(f.col("nth") <= max(1, examples_max))
        .orderBy("kind", "nth")
        .collect()
    )
    counts = {row["kind"]: row["count"] for row in rows}
    return tuple(
        Finding(
            kind,
            counts.get(kind.value, 0),
            tuple(
                f"{row['topic']}-{row['partition']}: {_shown(bytes(row['value']))} {row['words']}"
                for row in rows
                if row["kind"] == kind.value
            )[:examples_max],
        )
        for kind in FindingKind
    )


def _shown(value: bytes) -> str:
    text = repr(value)
    return text if len(text) <= _VALUE_CHARACTERS_MAX else f"{text[:_VALUE_CHARACTERS_MAX]}…"
