"""Serves produce and fetch on the partitions it holds."""
