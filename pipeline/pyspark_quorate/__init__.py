"""The name by which Spark finds the data source `quorate`: it imports every package called pyspark_*.

Whoever has `quorate[spark]` installed writes `spark.read.format("quorate")`, and registers nothing.
"""

from quorate.pipeline.source.data_source import QuorateDataSource as DefaultSource

__all__ = ["DefaultSource"]
