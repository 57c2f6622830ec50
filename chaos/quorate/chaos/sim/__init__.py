"""The simulated implementations of the three seams: Clock, Transport, Disk."""
