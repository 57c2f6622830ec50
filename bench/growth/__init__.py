"""What becomes of a cluster as something grows: partitions, producers, connections, idle partitions."""
