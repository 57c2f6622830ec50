"""What a fault must leave behind is counted, by the simulator and not by what nodes say."""

from __future__ import annotations

from collections import Counter

from quorate.chaos.cluster.cluster import SimCluster
from quorate.chaos.cluster.faults.kinds import Fault
from quorate.chaos.cluster.signs import SIGNS, SignsInMetadata, expected_signs, signs_of, signs_of_group
from quorate.chaos.history.history import History
from quorate.chaos.sim.clock import Simulation, run_simulation
from quorate.core.ids import Offset, PartitionId, TopicName, TopicPartition
from tests.simulation.ghost_world import partition_image


def test_every_sign_is_counted_and_a_restart_of_a_broker_is_none_of_a_controller() -> None:
    async def main(simulation: Simulation) -> dict[str, int]:
        cluster = SimCluster(simulation)
        await cluster.start()
        machine = cluster.brokers[0]
        machine.kill()
        machine.start()
        await machine.ready()
        return signs_of(cluster, SignsInMetadata(), Counter())

    signs = run_simulation(main, seed=1, time_limit_s=60)
    assert set(SIGNS.values()) <= set(signs)
    assert [signs[name] for name in expected_signs([Fault.KILL_BROKER, Fault.KILL_CONTROLLER])] == [1, 0]


def test_what_a_group_did_is_counted() -> None:
    history = History(lambda: 0.0)
    partition = TopicPartition(TopicName("g"), PartitionId(0))
    history.assign("reader", {partition: Offset(0)})
    given = history.give("g", "member", partition, start=Offset(0))
    history.end_commit(history.begin_commit(given, partition, Offset(1)))
    history.end_commit(history.begin_commit(given, partition, Offset(2)), "FENCED_MEMBER_EPOCH")
    signs = signs_of_group(history, offsets_told=7)
    assert signs == {"group_partitions_given": 1, "group_commits": 1, "group_offsets_told": 7}


def test_a_leader_is_moved_if_it_could_have_stayed() -> None:
    signs = SignsInMetadata()
    signs.saw(partition_image(leader=2))
    signs.saw(partition_image(leader=1, leader_epoch=1))
    assert (signs.leaders_moved, signs.unclean_elections) == (1, 0)
    signs.saw(partition_image(leader=2, leader_epoch=2, isr=(2, 3)))
    signs.saw(partition_image(leader=2, leader_epoch=3, unclean=(3,)))
    assert (signs.leaders_moved, signs.unclean_elections) == (1, 1)
