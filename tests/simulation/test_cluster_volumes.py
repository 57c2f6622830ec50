"""A volume loses its page cache only where the fault model says that somebody must find out (rule 30)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from quorate.chaos.cluster.cluster import SimCluster
from quorate.chaos.cluster.faults.volumes import _is_known_to_have_more, _number_on_device
from quorate.chaos.cluster.machine import SimMachine
from quorate.chaos.cluster.plan import Plan
from quorate.chaos.cluster.scene import Scene
from quorate.chaos.cluster.view import active_controller, newest_image
from quorate.chaos.history.history import History
from quorate.chaos.invariants.demands import Demands
from quorate.chaos.sim.clock import Simulation, run_simulation
from quorate.chaos.sim.disk import SimDisk
from quorate.controller.heard_witnesses import WITNESS_INTERVAL_S
from quorate.storage.data_directory_files import CACHE_WITNESS_NAME


def simulate(story: Callable[[Scene, SimMachine], Awaitable[None]]) -> None:
    """Of the machine that is broker and active controller."""

    async def main(simulation: Simulation) -> None:
        cluster = SimCluster(simulation, is_combined=True)
        await cluster.start()
        await asyncio.sleep(3 * WITNESS_INTERVAL_S)
        history = History(simulation.loop.time)
        scene = Scene(cluster, Plan.draw(1), history, Demands(), lambda: newest_image(cluster))
        machine = active_controller(cluster)
        assert machine is not None
        await story(scene, machine)

    run_simulation(main, seed=1, time_limit_s=60)


def write_back_witness(machine: SimMachine) -> None:
    machine.disk.write_back(f"{machine.config.data_dir}/{CACHE_WITNESS_NAME}")


def test_a_witness_that_was_not_written_back_tells_of_the_loss() -> None:
    async def story(scene: Scene, machine: SimMachine) -> None:
        machine.kill()
        assert await _is_known_to_have_more(scene, machine)

    simulate(story)


def test_a_witness_that_was_written_back_last_thing_tells_nothing_and_nothing_is_lost_then() -> None:
    async def story(scene: Scene, machine: SimMachine) -> None:
        before = _number_on_device(machine)
        write_back_witness(machine)
        machine.kill()
        assert before is not None
        assert (_number_on_device(machine) or 0) > before
        assert not await _is_known_to_have_more(scene, machine)

    simulate(story)


def test_a_witness_that_was_written_back_some_time_ago_tells_of_the_loss() -> None:
    async def story(scene: Scene, machine: SimMachine) -> None:
        write_back_witness(machine)
        await asyncio.sleep(3 * WITNESS_INTERVAL_S)
        machine.kill()
        assert await _is_known_to_have_more(scene, machine)

    simulate(story)


async def test_what_is_written_back_survives_and_a_name_may_go_before_its_content() -> None:
    disk = SimDisk()
    disk.make_directory("/d")
    disk.write_back("/")
    disk.open("/d/f", create=True).pwrite(b"content", 0)
    assert disk.first_unsynced("/d/f") == 0
    disk.write_back("/d/f")
    assert disk.first_unsynced("/d/f") == 0
    assert disk.peek_durable("/d/f") is None
    disk.write_back("/d")
    assert disk.first_unsynced("/d/f") is None
    disk.lose_page_cache()
    assert disk.peek_durable("/d/f") == disk.read_file("/d/f") == b"content"
