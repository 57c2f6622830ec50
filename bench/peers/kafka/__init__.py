"""Apache Kafka: a cluster of three nodes with its own Java tools, and its usual Python client."""
