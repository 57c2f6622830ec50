"""Leaders change, processes die, power fails, connections break: in the end all replicas are the same."""

from __future__ import annotations

import random

import pytest

from quorate.core.config import Durability
from tests.unit.replication.replication_world import BROKERS, World, with_world

SEEDS = range(15)


async def walk(world: World, *, steps: int = 60) -> None:
    """Ends with everything in order, or raises."""
    rng = random.Random(world.simulation.seed)
    for _ in range(steps):
        await _step(world, rng)
        world.check()
        await world.simulation.clock.sleep(rng.choice((0.0, 0.001, 0.003, 0.02, 0.2)))
        world.check()
    world.network.heal()
    for broker in world.brokers.values():
        if broker.partition is None:
            await broker.start()
            world.broker_came_back()
    await world.until(world.is_settled)
    world.append()
    await world.until(lambda: world.is_settled() and world.committed_end > 0)
    world.check_ledger()


STEPS = (
    ("append",) * 16 + ("elect",) * 6 + ("die", "start") * 4 + ("break", "block", "heal") * 2 + ("all die",)
)


async def _step(world: World, rng: random.Random) -> None:
    broker = world.brokers[rng.choice(BROKERS)]
    # Without fsync a loss of power is more than the loss of a process: see rule 30.
    has_power_loss = world.durability is Durability.FSYNC and rng.random() < 0.5
    match rng.choice(STEPS):
        case "append":
            # Also at a leader that has been deposed and has not heard of it.
            for _ in range(rng.randrange(1, 6)):
                world.append(rng.choice((None, None, *BROKERS)), acks_all=rng.random() < 0.8)
        case "elect":
            world.elect_anybody()
        case "die" if broker.partition is not None:
            broker.kill(power=has_power_loss)
            world.broker_died(broker.broker_id)
        case "all die":
            for each in world.brokers.values():
                if each.partition is not None:
                    each.kill(power=has_power_loss)
            world.elect_anybody()
        case "start" if broker.partition is None:
            await broker.start()
            world.broker_came_back()
        case "break":
            world.network.break_all_connections(broker.name)
        case "block":
            world.network.block(broker.name, f"b{rng.choice(BROKERS)}")
        case "heal":
            world.network.heal()


@pytest.mark.parametrize("durability", list(Durability))
@pytest.mark.parametrize("seed", SEEDS)
def test_replicas_end_alike_and_nothing_acknowledged_is_lost(seed: int, durability: Durability) -> None:
    with_world(walk, seed=seed, durability=durability)
