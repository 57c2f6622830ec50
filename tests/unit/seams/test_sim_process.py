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


# -- in the middle of an instant


async def _relay(done: list[int], *, turns: int) -> None:
    """All at one instant, each turn in a task of its own."""

    async def step(number: int) -> None:
        done.append(number)

    await asyncio.gather(*(step(number) for number in range(turns)))


@pytest.mark.parametrize("turns", [2, 5, 9])
def test_ambushed_process_is_killed_between_two_turns_of_one_instant(turns: int) -> None:
    done: list[int] = []

    async def main(simulation: Simulation) -> list[int]:
        died_at_s: list[float] = []
        process = SimProcess("p")

        def kill() -> None:
            died_at_s.append(simulation.loop.time())
            process.kill()

        process.ambush(turns, kill)
        process.start(_relay(done, turns=20))
        await asyncio.sleep(10)
        assert died_at_s == [0.0]
        assert len(process.held) >= 20 - len(done), "they were ready, and never run"
        return list(done)

    # The first turn is that of the main task, and the last is the one that does not come.
    assert run_simulation(main, seed=1) == list(range(turns - 2))


def test_process_paused_at_a_turn_goes_on_with_that_turn() -> None:
    async def main(simulation: Simulation) -> tuple[list[int], list[int]]:
        done: list[int] = []
        process = SimProcess("p")
        process.ambush(5, process.freeze)
        process.start(_relay(done, turns=20))
        await asyncio.sleep(1)
        at_the_pause = list(done)
        process.thaw(simulation.loop)
        await asyncio.sleep(1)
        return at_the_pause, done

    assert run_simulation(main, seed=1) == ([0, 1, 2], list(range(20)))


def test_turns_that_are_held_back_do_not_count_and_an_ambush_can_be_called_off() -> None:
    async def main(simulation: Simulation) -> tuple[list[int], list[str]]:
        done: list[int] = []
        sprung: list[str] = []
        process = SimProcess("p")
        process.start(_relay(done, turns=20))
        process.ambush(30, lambda: sprung.append("too late"))
        process.freeze()
        await asyncio.sleep(1)
        process.thaw(simulation.loop)
        process.ambush(1, lambda: sprung.append("called off"))
        process.disarm()
        await asyncio.sleep(1)
        return done, sprung

    assert run_simulation(main, seed=1) == (list(range(20)), [])
