"""Metrics of a node: what its process tells, and how all of it is written down for a collector."""
