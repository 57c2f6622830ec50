"""The PySpark data source `quorate`: topics as tables and streams, as Spark's Kafka source has them."""
