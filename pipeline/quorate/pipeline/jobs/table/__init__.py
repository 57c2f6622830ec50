"""The latest value of each key of a topic as a table; tombstones delete."""
