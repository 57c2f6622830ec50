"""What of a chunk is not written yet, after a kill in the middle of it.

Each partition was written in order, so what is missing of it is its end. Where something is missing before
what is there, the target has lost what was written: to compaction, to retention, to somebody's hand. Then
nobody can say what else it had, and to write the rest would put older records behind newer ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["Gap", "compared", "first_gap", "missing"]


class Gap(NamedTuple):
    """Offsets of the archive."""

    partition: int
    first_missing: int
    last_found: int


def compared(chunk: DataFrame, written: DataFrame, *, is_placed: bool) -> DataFrame:
    """``chunk`` with a column ``is_missing``: false for as many of each record as there are in ``written``.

    Of records that are the same in everything the first are taken for the written ones.
    ``is_surely_found``: of those that are the same none is missing. ``is_placed``: partitions are the same.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    there = written.select(_fingerprint(is_placed=is_placed)).groupBy("fingerprint")
    same = Window.partitionBy("fingerprint")
    times = f.coalesce("times", f.lit(0))
    return (
        chunk.withColumn("fingerprint", _fingerprint(is_placed=is_placed))
        .withColumn("nth", f.row_number().over(same.orderBy("partition", "offset")))
        .withColumn("total", f.count("*").over(same))
        .join(there.agg(f.count("*").alias("times")), "fingerprint", "left")
        .withColumn("is_missing", f.col("nth") > times)
        .withColumn("is_surely_found", f.col("total") <= times)
        .drop("fingerprint", "nth", "total", "times")
    )


def missing(comparison: DataFrame) -> DataFrame:
    """The rows that are still to be written."""
    return comparison.where("is_missing").drop("is_missing", "is_surely_found")


def first_gap(comparison: DataFrame, *, is_placed: bool) -> Gap | None:
    """Where something is missing before what is there; None: nowhere, as it should be."""
    from pyspark.sql import functions as f

    # By key the rows of a partition go to several, each of which has its own end.
    in_order = ["partition"] if is_placed else ["partition", "key"]
    rows = comparison if is_placed else comparison.where("key IS NOT NULL")
    found = (
        rows.groupBy(*in_order)
        .agg(
            f.min(f.when(f.col("is_missing"), f.col("offset"))).alias("first_missing"),
            f.max(f.when(f.col("is_surely_found"), f.col("offset"))).alias("last_found"),
        )
        .where("first_missing < last_found")
        .orderBy("partition", "first_missing")
        .select("partition", "first_missing", "last_found")
        .first()
    )
    return None if found is None else Gap(*found)


def _fingerprint(*, is_placed: bool) -> Column:
    """Of what a record is: null and empty differ, and where one part ends is part of it."""
    from pyspark.sql import functions as f

    parts = [f.unix_millis("timestamp").cast("string").cast("binary"), f.encode(f.lit("/"), "utf-8")]
    if is_placed:
        parts += [f.col("partition").cast("string").cast("binary"), f.encode(f.lit("/"), "utf-8")]
    # None of them is null in one place and an empty list in the other.
    headers = f.coalesce(f.to_json(f.when(f.size("headers") > 0, f.col("headers"))), f.lit(""))
    parts += [f.encode(f.concat(headers, f.lit("/")), "utf-8")]
    for name in ("key", "value"):
        length = f.coalesce(f.length(name), f.lit(-1)).cast("string")
        parts += [f.encode(f.concat(length, f.lit("/")), "utf-8"), f.coalesce(name, f.lit(b""))]
    return f.sha2(f.concat(*parts), 256).alias("fingerprint")
