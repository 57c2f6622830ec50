"""A whole cluster in one deterministic event loop: real nodes on simulated time, disks and network."""
