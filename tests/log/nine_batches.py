"""A log of two epochs and some segments, small enough to be looked at byte by byte."""

from __future__ import annotations

from quorate.chaos.models.log.log_harness import NOW_MS, LogHarness, batch, small_config
from quorate.chaos.sim.disk import SimDisk
from quorate.core.ids import LeaderEpoch

__all__ = ["log_of"]


async def log_of(*, segment_bytes: int = 300, disk: SimDisk | None = None) -> LogHarness:
    harness = LogHarness(small_config(segment_bytes=segment_bytes), disk=disk)
    await harness.lead(1)
    for n in range(9):
        if n == 5:
            harness.log.become_leader(LeaderEpoch(2))
        harness.append(batch(b"x" * n, b"y", timestamp=NOW_MS + n, producer=(7, 0, 2 * n) if n < 8 else None))
    return harness
