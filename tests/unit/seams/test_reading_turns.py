"""Requests that are read a few at a time, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from quorate.chaos.sim.clock import Simulation, run_simulation
from quorate.errors import Overloaded, RequestTimedOut
from quorate.rpc.reading_turns import ReadingTurns
from tests.unit.seams.echo_service import ECHO

LIMIT_S = 30.0


class World:
    def __init__(self, turns_max: int) -> None:
        self._turns = ReadingTurns(turns_max, limit_s=LIMIT_S)
        self.reading = 0

    async def read(self, takes_s: float, *, peer: str = "a") -> float:
        """When it had arrived."""

        async def arrive() -> float:
            self.reading += 1
            try:
                await asyncio.sleep(takes_s)
            finally:
                self.reading -= 1
            return asyncio.get_running_loop().time()

        return await self._turns.read(ECHO, arrive, lambda: peer)

    def start(self, *takes_s: float) -> list[asyncio.Task[float]]:
        return [asyncio.create_task(self.read(each)) for each in takes_s]


def simulate(scenario: Callable[[World], Awaitable[None]], *, turns_max: int) -> None:
    async def main(_: Simulation) -> None:
        await scenario(World(turns_max))

    run_simulation(main, seed=1)


def now() -> float:
    return asyncio.get_running_loop().time()


def test_no_more_are_read_at_once_than_there_are_turns() -> None:
    async def scenario(world: World) -> None:
        began = now()
        tasks = world.start(*[0.5] * 6)
        await asyncio.sleep(0.1)
        assert world.reading == 2
        assert [round(each - began, 3) for each in await asyncio.gather(*tasks)] == [0.5, 0.5, 1, 1, 1.5, 1.5]

    simulate(scenario, turns_max=2)


def test_request_that_does_not_arrive_is_given_up() -> None:
    async def scenario(world: World) -> None:
        began = now()
        with pytest.raises(RequestTimedOut, match=r"did not arrive within 30\.0 s"):
            await world.read(1_000)
        assert now() == began + LIMIT_S
        await world.read(1)

    simulate(scenario, turns_max=1)


def test_who_waits_hurries_the_one_that_has_been_read_longest() -> None:
    async def scenario(world: World) -> None:
        [oldest] = world.start(1_000)
        await asyncio.sleep(0.5)
        [second] = world.start(5)
        await asyncio.sleep(0)
        began = now()
        await world.read(0)
        assert now() == began + 0.5, "a turn has a second once somebody waits for it"
        with pytest.raises(Overloaded, match="others wait"):
            await oldest
        await second

    simulate(scenario, turns_max=2)


def test_one_that_has_been_read_for_long_ends_as_soon_as_somebody_waits() -> None:
    async def scenario(world: World) -> None:
        [slow] = world.start(1_000)
        await asyncio.sleep(20)
        began = now()
        await world.read(0)
        assert now() == began
        assert isinstance(slow.exception(), Overloaded)

    simulate(scenario, turns_max=1)


def test_small_requests_get_through_a_crowd_that_never_ends_its_own() -> None:
    async def scenario(world: World) -> None:
        crowd = world.start(*[1_000] * 12)
        await asyncio.sleep(0)
        began = now()
        await world.read(0)
        assert now() == began + 3, "twelve before it, four at a time, a second each"
        assert all(
            isinstance(each, Overloaded) for each in await asyncio.gather(*crowd, return_exceptions=True)
        )

    simulate(scenario, turns_max=4)


def test_connection_with_many_calls_waits_behind_itself() -> None:
    async def scenario(world: World) -> None:
        crowd = world.start(*[1_000] * 12)
        await asyncio.sleep(0)
        began = now()
        others = [world.read(0, peer="b"), world.read(0.5, peer="c"), world.read(0, peer="b")]
        assert [each - began for each in await asyncio.gather(*others)] == [1, 1.5, 1]
        await asyncio.gather(*crowd, return_exceptions=True)

    simulate(scenario, turns_max=4)


def test_who_waits_for_too_long_is_refused_and_takes_no_turn() -> None:
    async def scenario(world: World) -> None:
        crowd = world.start(*[1_000] * 40)
        await asyncio.sleep(0)
        with pytest.raises(Overloaded, match="arriving at once"):
            await world.read(0)
        await asyncio.gather(*crowd, return_exceptions=True)
        await world.read(0)
        assert world.reading == 0

    simulate(scenario, turns_max=1)


def test_client_that_goes_away_gives_its_turn_back_while_it_reads_and_while_it_waits() -> None:
    async def scenario(world: World) -> None:
        for _ in range(5):
            reading, waiting, chosen = world.start(10, 10, 10)
            await asyncio.sleep(0.1)
            waiting.cancel()
            # Both at once: the turn is passed on to one that has just gone.
            reading.cancel()
            await asyncio.sleep(0)
            chosen.cancel()
            await asyncio.gather(reading, waiting, chosen, return_exceptions=True)
        began = now()
        await world.read(1)
        assert now() == began + 1

    simulate(scenario, turns_max=1)


def test_a_turn_whose_time_is_over_is_not_lost_to_a_call_that_comes_at_that_moment() -> None:
    """Its end is on its way, but it has not run yet: nothing about it can be changed any more."""

    async def scenario(world: World) -> None:
        loop = asyncio.get_running_loop()
        comes = loop.create_future()

        async def come() -> float:
            await comes
            return await world.read(1)

        coming = asyncio.create_task(come())
        # At the instant at which the limit passes, and set before it: it comes first.
        loop.call_at(now() + LIMIT_S, comes.set_result, None)
        (slow,) = world.start(1_000)
        with pytest.raises(RequestTimedOut):
            await slow
        await coming
        await world.read(1)

    simulate(scenario, turns_max=1)
