"""A simulated process stops where it stands."""

from __future__ import annotations

import asyncio

import pytest

from quorate.chaos.sim.clock import Simulation, run_simulation
from quorate.chaos.sim.process import SimProcess


async def _count(counted: list[int], *, period_s: float = 1.0) -> None:
    try:
        while True:
            counted.append(len(counted))
            await asyncio.sleep(period_s)
    finally:
        counted.append(-1)


def test_killed_process_runs_nothing_more_not_even_what_cleans_up() -> None:
    counted: list[int] = []

    async def main(_: Simulation) -> list[int]:
        process = SimProcess("p")
        process.start(_count(counted))
        await asyncio.sleep(2.5)
        process.kill()
        await asyncio.sleep(10)
        return list(counted)

    assert run_simulation(main, seed=1) == [0, 1, 2]
    assert counted[-1] == -1, "it is unwound when the simulation is over"


def test_tasks_of_tasks_and_timers_belong_to_the_process() -> None:
    async def main(simulation: Simulation) -> list[str]:
        done: list[str] = []
        children: list[asyncio.Task[None]] = []

        async def child() -> None:
            await asyncio.sleep(3)
            done.append("child")

        async def parent() -> None:
            asyncio.get_running_loop().call_later(3, done.append, "timer")
            children.append(asyncio.create_task(child(), name="child"))
            await asyncio.sleep(1)
            done.append("parent")

        process = SimProcess("p")
        process.start(parent())
        await asyncio.sleep(2)
        process.kill()
        await asyncio.sleep(10)
        return list(done)

    assert run_simulation(main, seed=1) == ["parent"]


def test_paused_process_goes_on_where_it_was_and_its_timers_come_late() -> None:
    async def main(simulation: Simulation) -> tuple[list[int], list[float]]:
        counted: list[int] = []
        late: list[float] = []
        loop = simulation.loop

        async def work() -> None:
            loop.call_later(3, lambda: late.append(loop.time()))
            await _count(counted)

        process = SimProcess("p")
        process.start(work())
        await asyncio.sleep(1.5)
        process.freeze()
        await asyncio.sleep(5)
        assert counted == [0, 1]
        process.thaw(loop)
        await asyncio.sleep(1.2)
        return list(counted), late

    assert run_simulation(main, seed=1) == ([0, 1, 2, 3], [6.5])


def test_timer_that_an_earlier_held_turn_calls_off_does_not_run() -> None:
    async def main(simulation: Simulation) -> list[str]:
        done: list[str] = []
        loop = simulation.loop

        async def work() -> None:
            later = loop.call_later(2, done.append, "later")
            loop.call_later(1, later.cancel)

        process = SimProcess("p")
        process.start(work())
        await asyncio.sleep(0.5)
        process.freeze()
        await asyncio.sleep(5)
        process.thaw(loop)
        await asyncio.sleep(1)
        return done

    assert run_simulation(main, seed=1) == []


def test_a_dead_process_is_not_thawed() -> None:
    async def main(simulation: Simulation) -> list[int]:
        counted: list[int] = []
        process = SimProcess("p")
        process.start(_count(counted))
        await asyncio.sleep(0.5)
        process.kill()
        process.thaw(simulation.loop)
        await asyncio.sleep(5)
        return list(counted)

    assert run_simulation(main, seed=1) == [0]


def test_whoever_looks_on_is_called_after_every_turn_of_a_process_and_ends_the_run_by_raising() -> None:
    seen: list[str] = []
    dead = SimProcess("dead")

    def look(process: SimProcess) -> None:
        seen.append(process.name)
        assert not dead.is_dead, "seen enough"

    async def main(simulation: Simulation) -> None:
        simulation.loop.after_turn = look
        counted: list[int] = []
        dead.start(_count(counted))
        SimProcess("alive").start(_count(counted))
        await asyncio.sleep(1.5)
        dead.kill()
        await asyncio.sleep(1_000)

    with pytest.raises(AssertionError, match="seen enough"):
        run_simulation(main, seed=1)
    assert {"dead", "alive"} == set(seen[:-1])
    assert seen[-1] == "alive"
