"""The broker's data directory: whose it is, what its last process left, and which logs are in it."""
