"""A light client with batches that were made before: what limits it is the broker, of whichever system."""
