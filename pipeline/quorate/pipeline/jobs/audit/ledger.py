"""A drill's ledger as tables: what was sent with which outcome, and what the last reader found."""

from __future__ import annotations

import json
import math
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from quorate.errors import InvalidRequest

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["LOG_COLUMNS", "Ledger", "read_ledger"]

#: of what the log holds
LOG_COLUMNS: Final = ("topic", "partition", "offset", "value")

_FILE: Final = "history.jsonl"
_HEAD: Final = {"type": "ledger", "version": 1}
_DAMAGED: Final = "damaged"
#: A line is shorter, but for the polls of a reader.
_TAIL_BYTES: Final = 1 << 16
#: what is nested stays text, and is taken apart where it is needed: it differs from type to type
_LINE: Final = (
    "type string, serial long, at_s double, producer string, number long, partition string, acks string, "
    "value string, outcome string, offset long, error string, reader string, starts string, group string, "
    f"assignment long, records string, topic string, {_DAMAGED} string"
)


@dataclass(frozen=True, slots=True)
class Ledger:
    #: topic, partition, value, producer, number, acks, outcome, offset, error, is_former, is_current
    sent: DataFrame
    #: as ``LOG_COLUMNS``; of partitions that somebody has read to their end when nobody wrote any more
    read: DataFrame
    #: by topic and partition: where that reader began
    read_from: dict[tuple[str, int], int]

    @property
    def topics(self) -> list[str]:
        return sorted(row["topic"] for row in self.sent.select("topic").distinct().collect())


def read_ledger(spark: SparkSession, path: str) -> Ledger:
    """``path``: of the file, or of the directory of a report."""
    file = f"{path}/{_FILE}" if os.path.isdir(path) else path
    _check_file(file)
    lines = (
        spark.read.schema(_LINE)
        .option("columnNameOfCorruptRecord", _DAMAGED)
        .option("mode", "PERMISSIVE")
        .json(f"file://{os.path.abspath(file)}")
        .persist()
    )
    _check_lines(lines, file)
    readers = _last_readers(lines)
    return Ledger(
        sent=_sent(lines),
        read=_read(lines, readers),
        read_from={partition: start for partition, (_, start) in readers.items()},
    )


def _check_file(file: str) -> None:
    try:
        with open(file, encoding="utf-8") as lines:
            head = json.loads(lines.readline())
    except FileNotFoundError:
        raise InvalidRequest(f"there is no ledger {file}: name the report of a drill", path=file) from None
    except ValueError:
        head = None
    if head != _HEAD:
        raise InvalidRequest(f"{file} is no ledger of a drill, or of another version", path=file)


def _check_lines(lines: DataFrame, file: str) -> None:
    """Whoever wrote it may have been killed within the last line; anything else is damage."""
    from pyspark.sql import functions as f

    # Null, which a good line has there, is not unequal.
    damaged = lines.where(f.col(_DAMAGED) != _torn_line(file)).count()
    if damaged:
        raise InvalidRequest(f"{file} is damaged: {damaged} lines are not what a drill writes", path=file)


def _torn_line(file: str) -> str:
    """What stands behind the last end of a line; nothing: all lines are whole."""
    tail = b""
    with open(file, "rb") as content:
        at = content.seek(0, os.SEEK_END)
        while at > 0 and b"\n" not in tail:
            at = max(0, at - _TAIL_BYTES)
            content.seek(at)
            tail = content.read()
    return tail.rpartition(b"\n")[2].decode(errors="replace")


def _sent(lines: DataFrame) -> DataFrame:
    from pyspark.sql import functions as f

    place = f.from_json("partition", "array<string>")
    begun = lines.where("type = 'send'").select(
        "serial",
        f.col("at_s").alias("begun_s"),
        place[0].alias("topic"),
        place[1].cast("int").alias("partition"),
        f.encode("value", "ISO-8859-1").alias("value"),
        "producer",
        "number",
        "acks",
    )
    ended = lines.where("type = 'sent'").select(
        "serial", f.col("at_s").alias("ended_s"), "outcome", "offset", "error"
    )
    known = begun.join(ended, "serial", "left")
    last_deletion = _deletions(lines)
    unknown = f.coalesce("outcome", f.lit("unknown"))
    return (
        known.join(last_deletion, "topic", "left")
        .withColumn("outcome", unknown)
        .withColumn("is_former", f.coalesce(f.col("ended_s") < f.col("deletion_begun_s"), f.expr("false")))
        .withColumn("is_current", f.coalesce(f.col("begun_s") >= f.col("deletion_ended_s"), f.expr("true")))
    )


def _deletions(lines: DataFrame) -> DataFrame:
    """Of each topic that was deleted: from when to when the last deletion may have happened.

    What ended before is of the former topic, what began afterwards of the current one, and the rest of
    either.
    """
    from pyspark.sql import functions as f

    begun = lines.where("type = 'delete'").select("serial", "topic", f.col("at_s").alias("begun_s"))
    ended = lines.where("type = 'deleted'").select("serial", f.col("at_s").alias("ended_s"))
    both = begun.join(ended, "serial", "left")
    may_still_happen = f.lit(math.inf)
    return both.groupBy("topic").agg(
        f.max("begun_s").alias("deletion_begun_s"),
        f.max(f.coalesce("ended_s", may_still_happen)).alias("deletion_ended_s"),
    )


def _last_readers(lines: DataFrame) -> dict[tuple[str, int], tuple[int, int]]:
    """Of each partition the last one that has read it to its end, and where it began.

    Members of groups read parts.
    """
    rows = lines.where("type = 'assign' OR type = 'caught-up'").orderBy("serial").collect()
    caught_up = {row["serial"] for row in rows if row["type"] == "caught-up"}
    found: dict[tuple[str, int], tuple[int, int]] = {}
    for row in rows:
        if row["type"] == "assign" and row["serial"] in caught_up and row["group"] is None:
            for (topic, partition), start in json.loads(row["starts"]):
                found[topic, partition] = (row["serial"], start or 0)
    return found


def _read(lines: DataFrame, readers: dict[tuple[str, int], tuple[int, int]]) -> DataFrame:
    from pyspark.sql import functions as f

    chosen = lines.sparkSession.createDataFrame(
        [(topic, partition, serial) for (topic, partition), (serial, _) in readers.items()],
        "topic string, partition int, assignment long",
    )
    place = f.from_json("partition", "array<string>")
    polls = lines.where("type = 'poll'").select(
        place[0].alias("topic"),
        place[1].cast("int").alias("partition"),
        "assignment",
        f.explode(f.from_json("records", "array<array<string>>")).alias("record"),
    )
    return polls.join(f.broadcast(chosen), ["topic", "partition", "assignment"]).select(
        "topic",
        "partition",
        f.col("record")[0].cast("long").alias("offset"),
        f.encode(f.col("record")[1], "ISO-8859-1").alias("value"),
    )
