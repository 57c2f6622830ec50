"""The data source `quorate` beside Spark's own Kafka source, each on its own cluster."""
