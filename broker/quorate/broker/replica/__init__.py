"""One replica of a partition: what this broker keeps of it, and how it leads when it does."""
