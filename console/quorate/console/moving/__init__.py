"""Moves of partitions that are under way: how far they are, and when they will be done."""
