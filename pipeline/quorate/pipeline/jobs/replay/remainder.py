"""What of a chunk is not written yet, after a kill in the middle of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["without_written"]


def without_written(chunk: DataFrame, written: DataFrame, *, is_placed: bool) -> DataFrame:
    """``chunk`` without as many of each record as there are in ``written``.

    Of records that are the same in everything the first are taken for the written ones, which is so: each
    partition was written in order, so what is missing of it is its end. ``is_placed``: partitions are the
    same.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    there = written.select(_fingerprint(is_placed=is_placed)).groupBy("fingerprint")
    in_order = Window.partitionBy("fingerprint").orderBy("partition", "offset")
    return (
        chunk.withColumn("fingerprint", _fingerprint(is_placed=is_placed))
        .withColumn("nth", f.row_number().over(in_order))
        .join(there.agg(f.count("*").alias("times")), "fingerprint", "left")
        .where(f.col("nth") > f.coalesce("times", f.lit(0)))
        .drop("fingerprint", "nth", "times")
    )


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
