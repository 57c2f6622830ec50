"""Power loss for real processes: what they wrote and did not sync is taken back after they were killed."""

from __future__ import annotations

from quorate.chaos.faults.powerloss.build import why_no_shim
from quorate.chaos.faults.powerloss.page_cache import PageCache
from quorate.chaos.faults.powerloss.undo import Loss

__all__ = ["Loss", "PageCache", "why_no_shim"]
