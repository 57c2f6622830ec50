"""A cluster of ours and a cluster of Kafka's, given the same work in turns."""
