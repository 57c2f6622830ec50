"""The latest value of every key as a table of Delta Lake, in one file: copy it and change what a row is.

    python table.py 127.0.0.1:9092 customers /tmp/customers /tmp/customers-checkpoint

A batch is one merge. Delta notes its number in the same step (a transaction id), so a batch that Spark asks
for again after a kill is left alone.

A key is known by its partition, in which offsets tell what is newer. A topic that gets more partitions sends
keys to others, and their old rows stay: `quorate pipeline run table` refuses one.
"""

from __future__ import annotations

import sys

import pyarrow as pa  # type: ignore[import-untyped]  # it ships no types
from deltalake import CommitProperties, DeltaTable, Transaction
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

SCHEMA = pa.schema(
    [("partition", pa.int32()), ("key", pa.string()), ("value", pa.string()), ("offset", pa.int64())]
)


def merge(path: str, latest: pa.Table, query_id: str, number: int) -> None:
    table = DeltaTable.create(path, schema=SCHEMA, mode="ignore")
    done = table.transaction_version(query_id)
    if done is not None and done >= number:
        return
    (
        table.merge(
            latest,
            predicate="target.partition = source.partition AND target.key = source.key",
            source_alias="source",
            target_alias="target",
            commit_properties=CommitProperties(app_transactions=[Transaction(query_id, number)]),
        )
        .when_matched_delete("source.value IS NULL")
        .when_matched_update_all()
        .when_not_matched_insert_all("source.value IS NOT NULL")
        .execute()
    )


def main(bootstrap: str, topic: str, path: str, checkpoint: str) -> None:
    spark = SparkSession.builder.appName("customers").getOrCreate()
    records = (
        spark.readStream.format("quorate")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .load()
    )

    def on_batch(batch: DataFrame, number: int) -> None:
        newest = f.max_by(f.struct(f.col("value").cast("string").alias("value"), "offset"), "offset")
        latest = batch.groupBy("partition", f.col("key").cast("string").alias("key")).agg(
            newest.alias("newest")
        )
        # Numbers are the checkpoint's: with a new one they begin again, under another id.
        query_id = str(batch.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId"))
        columns = latest.select("partition", "key", "newest.value", "newest.offset")
        merge(path, columns.toArrow(), query_id, number)

    query = (
        records.writeStream.foreachBatch(on_batch)
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    print(f"{DeltaTable(path).count()} keys")


if __name__ == "__main__":
    if len(sys.argv) != 1 + 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])
