"""Spark's own source and sink for Kafka, from Maven Central."""
