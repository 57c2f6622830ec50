"""Topics into Parquet or Delta, each record once, by (topic, partition, offset)."""
