"""Runs the works on each side in turns, one cluster's whole life after the other's.

Only one cluster is alive at a time: two cores are few for one of them, and an idle Kafka takes its share.
Rejected: keeping both and stopping the idle one's processes with SIGSTOP. Their clocks go on, so each turn
would begin with expired sessions, elections and replicas out of sync, which is what failing over measures.
A life takes minutes, so the machine's own moods are longer than a turn only if they last for minutes.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence

from bench.cluster.comparison import Measures
from bench.cluster.peer import Peer
from bench.cluster.processes import ClientFailed
from bench.cluster.works import Work, warm_up

__all__ = ["Side", "take_turns"]

#: makes a cluster that has not started yet
Side = Callable[[], Peer]


async def take_turns(
    sides: Mapping[str, Side], works: Sequence[Work], rounds: int
) -> tuple[dict[str, Measures], list[str]]:
    """What each side measured, and what could not be measured and why."""
    measured: dict[str, dict[str, list[float]]] = {side: {} for side in sides}
    failures: list[str] = []
    for number in range(rounds):
        chosen = [work for work in works if work.every_round or number == 0]
        for side, make in sides.items():
            async with make() as peer:
                for work in chosen:
                    began = time.monotonic()
                    try:
                        found = await work.run(peer)
                        if work is chosen[0]:
                            await warm_up(peer)
                    except (ClientFailed, TimeoutError) as error:
                        failures.append(f"{side}, round {number + 1}, {work.name}: {error}")
                        found = {}
                    for name, values in found.items():
                        measured[side].setdefault(name, []).extend(values)
                    _tell(f"round {number + 1}", side, work.name, time.monotonic() - began, found)
    return dict(measured), failures


def _tell(turn: str, side: str, work: str, seconds: float, found: Measures) -> None:
    values = ", ".join(f"{name.partition(': ')[2] or name} {_short(each)}" for name, each in found.items())
    print(f"{turn}  {side:8} {work:16} {seconds:6.1f} s   {values or 'FAILED'}", file=sys.stderr, flush=True)


def _short(values: Sequence[float]) -> str:
    return " ".join(f"{value:.3g}" if value < 100 else f"{value:,.0f}" for value in values)
