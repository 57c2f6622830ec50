"""Faults inflicted on real processes: on their network, on their disks, on their machine's power."""
