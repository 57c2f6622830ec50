"""Redis Streams beside ours, for the latency of a lone write: XADD, then WAIT until two replicas have it."""
