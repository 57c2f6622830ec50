"""The PySpark data source `quorate`: topics as tables and streams, under the options of Spark's Kafka source."""
