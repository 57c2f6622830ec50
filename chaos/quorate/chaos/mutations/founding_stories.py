"""Stories of who belongs to a cluster: before there is one, and when somebody comes back as another."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Final

from quorate.broker.directory.identity import read_identity, write_identity
from quorate.chaos.cluster.cluster import SimCluster
from quorate.chaos.cluster.machine import SimMachine
from quorate.chaos.cluster.view import active_controller, newest_image
from quorate.chaos.mutations.hunts import StoryHunt
from quorate.chaos.sim.clock import Simulation, run_simulation
from quorate.metadata.raft.quorum import QuorumStatus
from quorate.node.metrics.insides import status_of_quorum

__all__ = [
    "a_directory_of_another_cluster_is_not_registered",
    "a_voter_with_an_empty_disk_is_removed_and_added",
    "a_voter_with_the_directory_of_another_refuses_to_start",
    "before_there_is_a_cluster",
    "voters_of_two_clusters_found_none",
]

_TIME_LIMIT_S: Final = 300.0
#: many times what it takes to found a quorum
_FOUNDED_WITHIN_S: Final = 5.0
_REFUSED_WITHIN_S: Final = 3.0


def before_there_is_a_cluster(tell: Callable[[SimCluster], Awaitable[None]]) -> StoryHunt:
    """A story that begins with machines on which nothing has ever been started."""

    def play() -> None:
        async def main(simulation: Simulation) -> None:
            await tell(SimCluster(simulation))

        run_simulation(main, seed=1, time_limit_s=_TIME_LIMIT_S)

    return StoryHunt("a cluster to be, a story", play)


async def voters_of_two_clusters_found_none(cluster: SimCluster) -> None:
    """One of three is configured for another cluster, by mistake: nobody begins before that is put right."""
    *others, strange = cluster.controllers
    ours = strange.config
    for machine in others:
        machine.config = replace(machine.config, cluster_id="one")
    strange.config = replace(ours, cluster_id="two")
    for machine in cluster.controllers:
        machine.start()
    await cluster.clock.sleep(_FOUNDED_WITHIN_S)
    for machine in cluster.controllers:
        assert not _status(machine).is_running, f"{machine.name} has founded a quorum with another cluster"
    strange.kill()
    strange.wipe()
    strange.config = replace(ours, cluster_id="one")
    strange.start()
    await cluster.until(
        lambda: all(_status(each).is_running for each in cluster.controllers), within_s=_FOUNDED_WITHIN_S
    )


async def a_voter_with_an_empty_disk_is_removed_and_added(cluster: SimCluster) -> None:
    """Until then it follows without a vote: what it had promised under its old directory is gone."""
    active = active_controller(cluster)
    assert active is not None
    victim = next(each for each in cluster.controllers if each is not active)
    node_id = victim.config.node_id
    victim.kill()
    victim.wipe()
    victim.start()
    await cluster.until(lambda: victim.is_ready and _status(victim).is_running, within_s=_FOUNDED_WITHIN_S)
    assert _status(victim).key not in _status(active).voters, "an empty directory has a vote"
    async with cluster.admin() as admin:
        await admin.remove_voter(node_id)
        await admin.add_voter(node_id, victim.address)
    assert _status(victim).key in _status(active).voters


async def a_voter_with_the_directory_of_another_refuses_to_start(cluster: SimCluster) -> None:
    """Two processes would vote with one directory's voice."""
    first, second, _ = cluster.controllers
    first.kill()
    second.kill()
    first.disk.restore(second.disk.snapshot())
    second.start()
    first.start()
    await cluster.clock.sleep(_REFUSED_WITHIN_S)
    assert not first.is_running, f"{first.name} runs with the directory of {second.name}"


async def a_directory_of_another_cluster_is_not_registered(cluster: SimCluster) -> None:
    """Its replicas would count as those of this cluster's broker of the same id."""
    machine = cluster.brokers[0]
    before = newest_image(cluster).brokers[machine.config.node_id].broker_epoch
    machine.kill()
    identity = read_identity(machine.disk, machine.config.data_dir)
    assert identity is not None
    await write_identity(machine.disk, machine.config.data_dir, replace(identity, cluster_id="another"))
    machine.start()
    await cluster.clock.sleep(_REFUSED_WITHIN_S)
    broker = newest_image(cluster).brokers[machine.config.node_id]
    assert broker.broker_epoch == before, f"{machine.name} has registered with another cluster's directory"


def _status(machine: SimMachine) -> QuorumStatus:
    assert machine.controller is not None, f"{machine.name} does not run"
    return status_of_quorum(machine.controller)
