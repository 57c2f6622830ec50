"""Replication: followers pull from leaders, over one stream for each pair of brokers."""
