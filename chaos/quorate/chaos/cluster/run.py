"""One simulated run of a whole cluster under faults, from a seed to a verdict."""

from __future__ import annotations

import asyncio
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from quorate.chaos.cluster.checks import check_history
from quorate.chaos.cluster.history import History
from quorate.chaos.cluster.nemesis import Fault
from quorate.chaos.cluster.scenario import Scenario
from quorate.chaos.cluster.workload import Workload
from quorate.chaos.sim.clock import Simulation, run_simulation
from quorate.core.config import Durability
from quorate.core.ids import Offset, TopicPartition

__all__ = ["RunReport", "run_seed"]

_PARTITIONS: Final = 2
_PRODUCERS: Final = 2
_FAULTS_S: Final = 12.0
_READ_WITHIN_S: Final = 60.0
_TIME_LIMIT_S: Final = 600.0


@dataclass(frozen=True, slots=True)
class RunReport:
    seed: int
    story: tuple[str, ...]
    sent: int
    acknowledged: int
    unknown: int
    read: int
    virtual_s: float
    #: of everything that was committed, to compare two runs of one seed
    digest: int


def run_seed(seed: int, *, faults: Sequence[Fault] = (), durability: Durability | None = None) -> RunReport:
    """``Violation`` (or another AssertionError) if a promise was broken. What is not given is drawn."""

    async def main(simulation: Simulation) -> RunReport:
        scenario = await Scenario.start(simulation, partitions=_PARTITIONS, durability=durability)
        return await _run(simulation, scenario, faults)

    return run_simulation(main, seed=seed, time_limit_s=_TIME_LIMIT_S)


async def _run(simulation: Simulation, scenario: Scenario, faults: Sequence[Fault]) -> RunReport:
    cluster, history = scenario.cluster, History()
    workload = Workload(cluster, history, scenario.partitions)
    producers = [
        asyncio.create_task(workload.produce(f"p{number}"), name=f"producer-{number}")
        for number in range(_PRODUCERS)
    ]
    reader = asyncio.create_task(workload.read("reader"), name="reader")
    await scenario.suffer(_FAULTS_S, faults)
    workload.end()
    await asyncio.gather(*producers)
    ends = await scenario.until_quiet()
    # A reader ends by itself only if what it read has vanished.
    await cluster.until(lambda: reader.done() or _is_all_read(history, ends), within_s=_READ_WITHIN_S)
    committed = scenario.committed()
    check_history(history, committed)
    if reader.done():
        reader.result()
    reader.cancel()
    return _report(simulation.seed, scenario, history, committed)


def _is_all_read(history: History, ends: Mapping[TopicPartition, Offset]) -> bool:
    read = Counter(partition for _, partition, _, _ in history.read)
    return all(read[partition] >= end for partition, end in ends.items())


def _report(
    seed: int,
    scenario: Scenario,
    history: History,
    committed: Mapping[TopicPartition, Mapping[Offset, bytes]],
) -> RunReport:
    content = sorted(
        (partition, offset, value)
        for partition, records in committed.items()
        for offset, value in records.items()
    )
    return RunReport(
        seed=seed,
        story=tuple(scenario.story),
        sent=len(history.sent),
        acknowledged=sum(1 for _ in history.acknowledged),
        unknown=sum(each.error is not None and each.error.outcome_unknown for each in history.sent),
        read=len(history.read),
        virtual_s=scenario.cluster.clock.monotonic(),
        digest=zlib.crc32(repr(content).encode()),
    )
