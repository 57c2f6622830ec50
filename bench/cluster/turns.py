"""Runs the works on each side in turns, one cluster's whole life after the other's.

Only one cluster is alive at a time: two cores are few for one of them, and an idle Kafka takes its share.
Rejected: keeping both and stopping the idle one's processes with SIGSTOP. Their clocks go on, so each turn
would begin with expired sessions, elections and replicas out of sync, which is what failing over measures.
A life takes minutes, so the machine's own moods are longer than a turn only if they last for minutes.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence

from bench.cluster.comparison import Measures
from bench.cluster.peer import LonePeer, Peer
from bench.cluster.processes import ClientFailed
from bench.cluster.rounds import Rounds
from bench.cluster.work import LoneWork, Measured, Work
from bench.cluster.works import warm_up

__all__ = ["Side", "take_turns"]

#: makes a cluster that has not started yet
Side = Callable[[], LonePeer]


async def take_turns(
    sides: Mapping[str, Side], works: Sequence[Work], rounds: int, kept: Rounds | None = None
) -> tuple[dict[str, Measures], list[str]]:
    """What each side measured, and what could not be measured and why.

    What is ``kept`` from before is not measured again, and what is measured is kept as soon as it is known.
    """
    kept = Rounds() if kept is None else kept
    failures: list[str] = []
    for number in range(rounds):
        for side, make in sides.items():
            due = [
                work
                for work in works
                if (work.every_round or number == 0) and not kept.has(side, number, work.name)
            ]
            if due:
                # A cluster's life begins with its start, whether that is known from before or not.
                chosen = due if due[0] is works[0] else [works[0], *due]
                await _live(make, side, number, chosen, kept, failures)
    return kept.measures(sides), failures


async def _live(
    make: Side, side: str, number: int, chosen: Sequence[Work], kept: Rounds, failures: list[str]
) -> None:
    """One life of one cluster."""
    async with make() as peer:
        for work in chosen:
            running = _run(work, peer)
            if running is None:
                kept.add(side, number, work.name, {})
                continue
            began = time.monotonic()
            try:
                found = await running
                if work is chosen[0]:
                    await warm_up(peer, work.scale)
            except (ClientFailed, TimeoutError) as error:
                failures.append(f"{side}, round {number + 1}, {work.name}: {error}")
                found = {}
            else:
                kept.add(side, number, work.name, found)
            _tell(f"round {number + 1}", side, work.name, time.monotonic() - began, found)


def _run(work: Work, peer: LonePeer) -> Awaitable[Measured] | None:
    """None: it is not for this one."""
    if isinstance(work, LoneWork):
        return work.run(peer)
    return work.run(peer) if isinstance(peer, Peer) else None


def _tell(turn: str, side: str, work: str, seconds: float, found: Measures) -> None:
    values = ", ".join(f"{name.partition(': ')[2] or name} {_short(each)}" for name, each in found.items())
    print(f"{turn}  {side:8} {work:16} {seconds:6.1f} s   {values or 'FAILED'}", file=sys.stderr, flush=True)


def _short(values: Sequence[float]) -> str:
    return " ".join(f"{value:.3g}" if value < 100 else f"{value:,.0f}" for value in values)
