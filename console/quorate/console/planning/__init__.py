"""Capacity: what a load needs of brokers, partitions, disks and network, and why."""
