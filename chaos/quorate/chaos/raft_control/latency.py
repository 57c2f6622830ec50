"""How fast pysyncobj commits when it is tuned for it, and promises nothing: no file, no sync.

The figure stands beside ours in the benchmarks, to show what durability costs. Tuned means: commands are sent
when they come, not collected for 100 ms; the event loop never sleeps longer than a millisecond; the journal
is in memory. Commands go one after the other to the leader, on loopback.
"""

from __future__ import annotations

from typing import Final

from quorate.chaos.raft_control.processes import free_addresses, running_voters, the_leader

__all__ = ["measure_commit_latencies"]

_COMMANDS: Final = 1_000
_WARM_UP: Final = 100
_TUNED: Final = {
    "appendEntriesUseBatch": False,
    "connectionRetryTime": 0.1,
}
_TICK_S: Final = 0.001


async def measure_commit_latencies(commands: int = _COMMANDS) -> list[float]:
    """Seconds from a command's start at the leader until it was committed and applied there."""
    addresses = free_addresses()
    async with running_voters(addresses, None, configuration=_TUNED, tick_s=_TICK_S) as voters:
        leader = await the_leader(voters)
        await leader.ask(f"sequential {_WARM_UP}")
        latencies: list[float] = (await leader.ask(f"sequential {commands}"))["latencies_s"]
        return latencies
