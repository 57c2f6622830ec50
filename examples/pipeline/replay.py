"""A day of an archive back into a topic, in order: copy it and choose what is replayed.

    python replay.py 127.0.0.1:9092 /tmp/archive orders 2026-01-31 orders-again

Started twice, it writes twice: `quorate pipeline run replay` notes how far it is.
"""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as f


def main(bootstrap: str, path: str, topic: str, date: str, target: str) -> None:
    spark = SparkSession.builder.appName("replay").config("spark.sql.session.timeZone", "UTC").getOrCreate()
    records = spark.read.parquet(path).where((f.col("topic") == topic) & (f.col("date") == date))
    (
        # A partition of the topic in one task, sorted: what is read later was written later.
        records.repartition("partition")
        .sortWithinPartitions("partition", "offset")
        .select("key", "value", "headers", "partition", "timestamp")
        .write.format("quorate")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("topic", target)
        # The timestamps of the records, not of now.
        .option("includeTimestamp", "true")
        .mode("append")
        .save()
    )
    print(f"{records.count()} records replayed")


if __name__ == "__main__":
    if len(sys.argv) != 1 + 5:
        sys.exit(__doc__)
    main(*sys.argv[1:])
