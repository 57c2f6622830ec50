"""Virtual time: it jumps, it is deterministic, and a program that cannot finish is told why."""

from __future__ import annotations

import asyncio
import re
from functools import partial

import pytest

from quorate.chaos.sim.clock import SimClock, Simulation, run_simulation
from quorate.chaos.sim.loop import SimulationStuck
from quorate.chaos.sim.process import SimProcess


def test_days_pass_without_waiting() -> None:
    async def main(sim: Simulation) -> float:
        await sim.clock.sleep(7 * 24 * 3600)
        return sim.clock.monotonic()

    assert run_simulation(main, seed=1) == 7 * 24 * 3600


def test_timers_fire_in_the_order_of_their_time() -> None:
    async def main(sim: Simulation) -> list[tuple[float, str]]:
        fired: list[tuple[float, str]] = []

        def fire(name: str) -> None:
            fired.append((sim.clock.monotonic(), name))

        for delay, name in ((3.0, "c"), (1.0, "a"), (2.0, "b")):
            sim.clock.call_later(delay, partial(fire, name))
        cancelled = sim.clock.call_later(1.5, partial(fire, "cancelled"))
        cancelled.cancel()
        await sim.clock.sleep(10)
        return fired

    assert run_simulation(main, seed=1) == [(1.0, "a"), (2.0, "b"), (3.0, "c")]


def test_asyncio_timeouts_use_virtual_time() -> None:
    async def main(sim: Simulation) -> float:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(60):
                await asyncio.Event().wait()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.Event().wait(), 30)
        return sim.clock.monotonic()

    assert run_simulation(main, seed=1) == 90.0


async def _busy_program(sim: Simulation) -> list[str]:
    """Tasks, random delays, cancellation by a group: whatever could depend on an address in memory."""
    trace: list[str] = []

    async def worker(number: int) -> None:
        try:
            while True:
                await asyncio.sleep(sim.rng.random())
                trace.append(f"{sim.clock.monotonic():.9f} {number}")
        finally:
            trace.append(f"cancelled {number}")

    async def failing() -> None:
        await asyncio.sleep(3)
        raise ValueError

    async def group() -> None:
        async with asyncio.TaskGroup() as tasks:
            for number in range(20):
                tasks.create_task(worker(number))
            tasks.create_task(failing())

    with pytest.raises(ExceptionGroup):
        await group()
    return trace


def test_same_seed_gives_the_same_trace_and_another_seed_another() -> None:
    first = run_simulation(_busy_program, seed=7)
    # Objects at other addresses, so that an order by address would show.
    ballast = [object() for _ in range(1000)]
    assert run_simulation(_busy_program, seed=7) == first
    assert run_simulation(_busy_program, seed=8) != first
    del ballast


def test_deadlock_is_reported_with_the_line_that_waits() -> None:
    async def waits_for_ever() -> None:
        await asyncio.Event().wait()

    async def main(sim: Simulation) -> None:
        await asyncio.create_task(waits_for_ever())

    with pytest.raises(SimulationStuck, match=r"deadlock at 0\.000 s(.|\n)*waits_for_ever at .*\.py:\d+"):
        run_simulation(main, seed=1)


def test_program_that_never_ends_meets_its_time_limit() -> None:
    async def main(sim: Simulation) -> None:
        while True:
            await sim.clock.sleep(1)

    with pytest.raises(SimulationStuck, match=r"not finished at 101\.000 s"):
        run_simulation(main, seed=1, time_limit_s=100)


async def _spins() -> None:
    while True:  # noqa: ASYNC110 - the fault that the tests are about
        await asyncio.sleep(0)


def test_spinning_without_passing_time_is_reported_with_the_task_that_spins(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("quorate.chaos.sim.loop._TURNS_PER_INSTANT_MAX", 100)

    async def waits_for_ever() -> None:
        await asyncio.Event().wait()

    async def main(sim: Simulation) -> None:
        waiting = asyncio.create_task(waits_for_ever(), name="patient")
        spinning = SimProcess("node-1").start(_spins())
        await asyncio.gather(waiting, spinning)

    with pytest.raises(SimulationStuck) as stuck:
        run_simulation(main, seed=1)
    spun, tasks = str(stuck.value).split("and the tasks are")
    assert re.search(r"spinning at 0\.000 s: time never passes", spun)
    assert re.search(r"\n  \d\d x task-\d+ _spins at .*\.py:\d+ of node-1\n", spun)
    assert spun.count("waits_for_ever") == 1, "its first step, and none after it"
    assert "patient" in tasks


def test_spinning_of_plain_callbacks_is_reported_with_their_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quorate.chaos.sim.loop._TURNS_PER_INSTANT_MAX", 2_000)

    def again(sim: Simulation) -> None:
        sim.loop.call_soon(partial(again, sim))

    async def main(sim: Simulation) -> None:
        again(sim)
        await asyncio.Event().wait()

    with pytest.raises(SimulationStuck) as stuck:
        run_simulation(main, seed=1)
    spun, _ = str(stuck.value).split("and the tasks are")
    _, *last = spun.strip().split("\n")
    assert [line.strip() for line in last] == [f"1000 x {again.__qualname__}"]


def test_threads_are_refused() -> None:
    async def main(sim: Simulation) -> None:
        await asyncio.to_thread(print)

    with pytest.raises(RuntimeError, match="no threads"):
        run_simulation(main, seed=1)


def test_error_of_the_program_comes_out_as_it_is() -> None:
    async def main(sim: Simulation) -> None:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        run_simulation(main, seed=1)


def test_tasks_left_behind_are_cancelled_at_the_end() -> None:
    ended: list[str] = []

    async def background() -> None:
        try:
            await asyncio.sleep(1000)
        finally:
            ended.append("background")

    async def main(sim: Simulation) -> asyncio.Task[None]:
        task = asyncio.create_task(background())
        await asyncio.sleep(1)
        return task

    task = run_simulation(main, seed=1)
    assert task.cancelled()
    assert ended == ["background"]


def test_wall_clock_jumps_while_monotonic_time_goes_on() -> None:
    async def main(sim: Simulation) -> None:
        clock = SimClock(sim.loop, wall_start_ms=1_000_000)
        await clock.sleep(2.5)
        assert clock.wall_ms() == 1_002_500
        clock.jump_wall(-60_000)
        assert clock.wall_ms() == 942_500
        assert clock.monotonic() == 2.5

    run_simulation(main, seed=1)


def test_drifting_clock_counts_and_sleeps_at_its_own_rate() -> None:
    async def main(sim: Simulation) -> None:
        fast = SimClock(sim.loop, rate=1.25)
        await sim.clock.sleep(4)
        assert fast.monotonic() == 5.0
        fast.rate = 0.5
        assert fast.monotonic() == 5.0, "a change of rate is no jump"
        await fast.sleep(1)
        assert fast.monotonic() == pytest.approx(6.0)
        assert sim.clock.monotonic() == pytest.approx(6.0)
        fired: list[float] = []
        fast.call_later(1, lambda: fired.append(sim.clock.monotonic()))
        await sim.clock.sleep(10)
        assert fired == pytest.approx([8.0])


def test_who_waits_on_a_drifting_clock_until_a_moment_comes_is_not_woken_before_it() -> None:
    async def main(sim: Simulation) -> None:
        drifting = SimClock(sim.loop, rate=1.0)
        for number in range(1_000):
            drifting.rate = sim.rng.uniform(0.9, 1.1)
            due = drifting.monotonic() + sim.rng.uniform(0.001, 3) * (number + 1)
            await drifting.sleep(due - drifting.monotonic())
            assert drifting.monotonic() >= due

    run_simulation(main, seed=1)


def test_who_waits_on_a_clock_that_has_drifted_is_not_woken_early_once_it_keeps_time_again() -> None:
    """It shows another time than the true one from then on, so there still is something to round."""

    async def main(sim: Simulation) -> None:
        clock = SimClock(sim.loop, rate=0.95)
        await sim.clock.sleep(sim.rng.uniform(0.1, 3))
        clock.rate = 1.0
        for _ in range(1_000):
            due = clock.monotonic() + sim.rng.uniform(0.001, 3)
            await sim.clock.sleep(sim.rng.uniform(0.0, 0.0005))
            await clock.sleep(due - clock.monotonic())
            assert clock.monotonic() >= due

    run_simulation(main, seed=1)
