"""Real processes: load on three voters, kill -9 of all at once, again and again, while they compact.

Nothing here needs a power loss: what a process wrote is in the page cache, and outlives it. The journal and
the dump are files, the compaction is frequent (as it becomes in a long life), all else is left as it comes.
"""

from __future__ import annotations

import asyncio
import random
import tempfile
import time
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Final

from quorate.chaos.raft_control.processes import VoterProcess, free_addresses, running_voters, the_leader

__all__ = ["Losses", "kill_all_repeatedly"]

_CONFIGURATION: Final = {
    "logCompactionMinEntries": 50,
    "logCompactionMinTime": 1,
    "connectionRetryTime": 0.1,
}
_TICK_S: Final = 0.005
#: so many that a voter is at work on its journal whenever it compacts, on a quick machine too
_IN_FLIGHT: Final = 2_000
#: seconds under load, once there is a leader, before all are killed
_LOAD_S_RANGE: Final = (0.2, 1.5)
_SETTLE_S: Final = 3.0


@dataclass(frozen=True, slots=True)
class Losses:
    kills: int
    acknowledged: int
    #: acknowledged, and missing in the state of the leader
    lost: int
    #: voters whose state is another one than the leader's, long after the last command
    diverged: int

    @property
    def is_caught(self) -> bool:
        """As a control should be: it has broken a promise, and that was seen."""
        return self.lost > 0 or self.diverged > 0


async def kill_all_repeatedly(*, for_s: float, seed: int) -> Losses:
    chance = random.Random(seed)
    acknowledged: set[str] = set()
    kills = 0
    end = time.monotonic() + for_s
    with tempfile.TemporaryDirectory() as directory:
        addresses = free_addresses()
        while time.monotonic() < end:
            async with _voters(addresses, directory) as voters:
                await _load(voters, name=str(kills), for_s=chance.uniform(*_LOAD_S_RANGE))
            kills += 1
            acknowledged.update(name for voter in voters for name in voter.acknowledged)
        async with _voters(addresses, directory) as voters:
            leader = await the_leader(voters)
            await asyncio.sleep(_SETTLE_S)
            kept = await _state(leader)
            diverged = sum([await _state(voter) != kept for voter in voters])
    return Losses(kills, len(acknowledged), len(acknowledged - set(kept)), diverged)


def _voters(addresses: list[str], directory: str) -> AbstractAsyncContextManager[list[VoterProcess]]:
    return running_voters(addresses, directory, configuration=_CONFIGURATION, tick_s=_TICK_S)


async def _load(voters: list[VoterProcess], *, name: str, for_s: float) -> None:
    await the_leader(voters)
    for number, voter in enumerate(voters):
        voter.tell(f"load {name}.{number} {_IN_FLIGHT}")
    await asyncio.sleep(for_s)


async def _state(voter: VoterProcess) -> list[str]:
    names: list[str] = (await voter.ask("state"))["state"]
    return names
