"""Power loss for real processes: what they wrote and did not sync is taken back after they were killed."""

from __future__ import annotations

from quorate.chaos.faults.powerloss.build import why_no_shim
from quorate.chaos.faults.powerloss.faulty_disk import FaultyDisk
from quorate.chaos.faults.powerloss.undo import Loss

__all__ = ["FaultyDisk", "Loss", "why_no_shim"]
