"""The throttle of moves, as a real controller keeps it."""

from __future__ import annotations

from quorate.console.moving.throttling import current_throttle, restore_throttle, set_throttle
from tests.unit.node.test_simulated_node import Machine, simulate


def test_throttle_that_was_there_before_is_found_and_restored() -> None:
    async def scenario(machine: Machine) -> None:
        node = await machine.start()
        async with machine.connect() as connection:
            assert await current_throttle(connection) is None
            await set_throttle(connection, "5MiB")
            former = await current_throttle(connection)
            assert former is not None
            await set_throttle(connection, "10MiB")
            assert await current_throttle(connection) not in (None, former)
            await restore_throttle(connection, former)
            assert await current_throttle(connection) == former
            await restore_throttle(connection, None)
            assert await current_throttle(connection) is None
        await node.stop()

    simulate(scenario)
