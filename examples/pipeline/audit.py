"""A ledger of your own against a topic: is everything there that was promised? Copy it, name your columns.

    python audit.py 127.0.0.1:9092 orders ledger.jsonl

The ledger has a line of JSON for each record that was acknowledged: `{"id": "…", "number": 7}`. Values in the
topic are JSON with that `id`; what has none was not promised, and is not asked about. `quorate pipeline run
audit` does this, and more, with the ledger of a drill.
"""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession, Window
from pyspark.sql import functions as f


def main(bootstrap: str, topic: str, ledger_file: str) -> None:
    spark = SparkSession.builder.appName("audit").getOrCreate()
    promised = spark.read.schema("id string, number long").json(ledger_file)
    log = (
        spark.read.format("quorate")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", topic)
        .load()
        .select("partition", "offset", f.get_json_object(f.col("value").cast("string"), "$.id").alias("id"))
    )
    log = log.where("id IS NOT NULL")
    lost = promised.join(log, "id", "left_anti")
    twice = log.groupBy("id").count().where("count > 1")
    before = Window.partitionBy("partition").orderBy("offset").rowsBetween(Window.unboundedPreceding, -1)
    numbered = log.join(promised, "id").withColumn("latest_before", f.max("number").over(before))
    for name, found in {
        "lost": lost,
        "twice": twice,
        "late": numbered.where("number < latest_before"),
    }.items():
        print(f"{name}: {found.count()}")
        found.show(5, truncate=False)


if __name__ == "__main__":
    if len(sys.argv) != 1 + 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
