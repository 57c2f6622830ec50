"""Orders per customer and minute, as they come in: copy it and change what is counted.

    python aggregate.py 127.0.0.1:9092 orders orders-per-minute /tmp/orders-per-minute

Reads the topic `orders`, whose values are JSON with an `amount`, and writes to a topic that exists. A result
holds all of its window so far, so one that is written again after a restart says the same again. With Kafka
the same program runs with format("kafka").
"""

from __future__ import annotations

import sys

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f


def main(bootstrap: str, source: str, target: str, checkpoint: str) -> None:
    spark = SparkSession.builder.appName("orders per minute").getOrCreate()
    orders = (
        spark.readStream.format("quorate")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", source)
        .option("startingOffsets", "earliest")
        .load()
    )
    amount = f.get_json_object(f.col("value").cast("string"), "$.amount").try_cast("decimal(38,9)")
    per_minute = (
        orders.select("timestamp", f.col("key").cast("string").alias("customer"), amount.alias("amount"))
        # Orders that come later than a minute after the newest one are not counted any more.
        .withWatermark("timestamp", "1 minute")
        .groupBy(f.window("timestamp", "1 minute"), "customer")
        .agg(f.count("*").alias("orders"), f.sum("amount").alias("amount"))
    )
    results = per_minute.select(
        f.to_json(f.struct("customer", "window.start")).alias("key"),
        f.to_json(f.struct("customer", "window", "orders", "amount")).alias("value"),
    )

    def write(changed: DataFrame, _number: int) -> None:
        writer = changed.write.format("quorate").option("kafka.bootstrap.servers", bootstrap)
        writer.option("topic", target).mode("append").save()

    query = (
        # Spark takes updates from sinks written in Python only batch by batch.
        results.writeStream.foreachBatch(write)
        .outputMode("update")
        .option("checkpointLocation", checkpoint)
        # Everything that is there, then the end. To go on for ever: processingTime="10 seconds".
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    print(f"{sum(each['numInputRows'] for each in query.recentProgress)} orders counted")


if __name__ == "__main__":
    if len(sys.argv) != 1 + 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])
