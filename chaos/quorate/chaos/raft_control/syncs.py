"""How often pysyncobj syncs anything while it acknowledges commands, as strace sees it: never.

With a journal and a dump file configured; without them it has nothing that could be synced.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections import Counter
from typing import Final

from quorate.chaos.raft_control.processes import VOTERS, free_addresses, running_voters, the_leader

__all__ = ["SYNC_CALLS", "count_syncs", "is_strace_here"]

#: every system call that makes anything durable
SYNC_CALLS: Final = ("fsync", "fdatasync", "msync", "sync_file_range", "syncfs", "sync")
_TICK_S: Final = 0.01
_CONFIGURATION: Final = {"connectionRetryTime": 0.1, "appendEntriesUseBatch": False}
_WAIT_FOR_STRACE_S: Final = 0.3


def is_strace_here() -> bool:
    return shutil.which("strace") is not None


async def count_syncs(commands: int = 200) -> tuple[int, Counter[str]]:
    """How many commands were acknowledged, and the calls that all voters made meanwhile, by name."""
    with tempfile.TemporaryDirectory() as directory:
        traces = [os.path.join(directory, f"{number}.strace") for number in range(VOTERS)]
        # What is opened is counted too: it shows that the trace works.
        calls = f"trace={','.join((*SYNC_CALLS, 'openat'))}"
        # -D: the voter, not strace, is our child, and dies when it is killed.
        under = [["strace", "-D", "-f", "-o", trace, "-e", calls] for trace in traces]
        async with running_voters(
            free_addresses(), directory, configuration=_CONFIGURATION, tick_s=_TICK_S, under=under
        ) as voters:
            leader = await the_leader(voters)
            answer = await leader.ask(f"sequential {commands}")
        await asyncio.sleep(_WAIT_FOR_STRACE_S)
        return len(answer["latencies_s"]), sum(map(_calls_in, traces), Counter())


def _calls_in(trace: str) -> Counter[str]:
    with open(trace, encoding="utf-8", errors="replace") as file:
        return Counter(line.split(maxsplit=1)[1].partition("(")[0] for line in file if "(" in line)
