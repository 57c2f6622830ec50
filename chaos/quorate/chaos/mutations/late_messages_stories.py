"""What a broker has sent reaches the controller when it is true no longer (rules 35 and 44).

The network keeps a registration until its process is gone, and the one after that, too; a heartbeat until its
stream is abandoned, and the process is dead, or what it reported is repaired. To believe any of it would keep
a broker out that is well: for a while, or for ever where it has the last copy.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from quorate.chaos.cluster.cluster import SimCluster
from quorate.chaos.cluster.machine import SimMachine
from quorate.chaos.cluster.view import active_controller, newest_image
from quorate.chaos.mutations.damaged_log_story import damage_log, replica_on
from quorate.chaos.mutations.shortened_log_story import RECORDS, TOPIC, write_records
from quorate.chaos.sim.network import LinkFaults
from quorate.metadata.image import BrokerImage, PartitionImage

__all__ = [
    "a_late_heartbeat_keeps_no_dead_process_alive",
    "a_late_registration_is_none",
    "a_late_report_of_damage_is_void",
    "a_late_report_of_damage_is_void_for_the_next_controller",
    "damage_is_told_again_where_a_later_epoch_counts_on_the_replica",
]

#: what is late takes so long; everything that the stories do in between takes less
_LATE_S: Final = 40.0
#: of a start after ``kill -9``
_STARTED_WITHIN_S: Final = 1.0


async def a_late_registration_is_none(cluster: SimCluster) -> None:
    """The second process dies before it is heard, the third serves, and then the second one is heard."""
    await _create_with_first_on(cluster, 1, replicas=[1])
    machine = cluster.broker(1)
    await write_records(cluster)
    cluster.network.delivered_share = 1.0
    await _die(cluster, machine)
    late = await _start_unheard(cluster, machine)
    machine.kill()
    machine.start()
    await cluster.until(lambda: machine.is_ready)
    await _die(cluster, machine)
    assert cluster.clock.monotonic() < late, "it was heard too early"
    await _wait_until(cluster, late + _STARTED_WITHIN_S)
    machine.start()
    await cluster.until(lambda: machine.is_ready)
    await cluster.until(lambda: _partition(cluster).leader == 1)
    assert replica_on(machine).log.log_end_offset == RECORDS


async def a_late_heartbeat_keeps_no_dead_process_alive(cluster: SimCluster) -> None:
    machine = cluster.brokers[0]
    cluster.network.delivered_share = 1.0
    late = await _abandon_a_stream(cluster, machine)
    await _die(cluster, machine)
    assert cluster.clock.monotonic() < late, "it was heard too early"
    await _wait_until(cluster, late + _STARTED_WITHIN_S)
    machine.start()
    began_at = cluster.clock.monotonic()
    await cluster.until(lambda: machine.is_ready)
    took_s = cluster.clock.monotonic() - began_at
    assert took_s < _STARTED_WITHIN_S, f"a dead process was taken for alive: the next one waited {took_s:g} s"


async def a_late_report_of_damage_is_void(cluster: SimCluster) -> None:
    """It is repaired long since: another report of the same was heard."""
    machine, late, leader_epoch = await _repair_what_is_reported_late(cluster)
    await _wait_until(cluster, late + 1)
    _is_still_trusted(cluster, machine, leader_epoch)


async def a_late_report_of_damage_is_void_for_the_next_controller(cluster: SimCluster) -> None:
    """As above; and nobody who remembers what was heard is in office."""
    active = active_controller(cluster)
    assert active is not None
    machine, late, leader_epoch = await _repair_what_is_reported_late(cluster)
    other = next(each for each in cluster.controllers if each is not active)
    async with cluster.admin() as admin:
        await admin.transfer_controller(other.config.node_id)
        await cluster.until(lambda: active_controller(cluster) is other)
        # What the broker says from here on, comes later still.
        _delay(cluster, machine, [active], 2 * _LATE_S)
        await _wait_until(cluster, late - 0.5)
        await admin.transfer_controller(active.config.node_id)
    await cluster.until(lambda: active_controller(cluster) is active)
    assert cluster.clock.monotonic() < late, "it was heard too early"
    # Less than a session: nobody is fenced for what is not heard of it.
    await _wait_until(cluster, late + 0.5)
    _is_still_trusted(cluster, machine, leader_epoch)
    _delay(cluster, machine, [active], None)


async def damage_is_told_again_where_a_later_epoch_counts_on_the_replica(cluster: SimCluster) -> None:
    """Another leader is elected before the first report is heard, which is void then: it is not forgotten."""
    await _create_with_first_on(cluster, 2, replicas=[2, 3, 1])
    machine, active = cluster.broker(1), active_controller(cluster)
    assert active is not None
    await write_records(cluster)
    replica = replica_on(machine)
    await cluster.until(lambda: len(_partition(cluster).isr) == 3 and replica.high_watermark == RECORDS)
    _delay(cluster, machine, [active], _LATE_S)
    await cluster.clock.sleep(machine.config.broker_heartbeat_interval_ms / 1000)
    damage_log(machine, replica)
    epoch = replica.leader_epoch
    cluster.broker(2).kill()
    await cluster.until(lambda: replica.leader_epoch > epoch)
    assert 1 in _partition(cluster).isr, "it was heard too early"
    assert _partition(cluster).leader == 3
    _delay(cluster, machine, [active], None)
    await cluster.until(lambda: replica.failure is None and 1 in _partition(cluster).isr)


# -- what the stories share


async def _repair_what_is_reported_late(cluster: SimCluster) -> tuple[SimMachine, float, int]:
    """A replica's broker, when its first report arrives, and the leader epoch in which it is well again."""
    await _create_with_first_on(cluster, 2, replicas=[2, 1, 3])
    machine = cluster.broker(1)
    await write_records(cluster)
    await cluster.until(lambda: len(_partition(cluster).isr) == 3)
    replica = replica_on(machine)
    # So that there is something to be found damaged.
    await cluster.until(lambda: replica.high_watermark == RECORDS)
    late = await _abandon_a_stream(cluster, machine, damaged=True)
    await cluster.until(lambda: replica.failure is None and 1 in _partition(cluster).isr)
    return machine, late, _partition(cluster).leader_epoch


def _is_still_trusted(cluster: SimCluster, machine: SimMachine, leader_epoch: int) -> None:
    assert replica_on(machine).failure is None
    partition = _partition(cluster)
    assert 1 in partition.isr, "a replica was thrown out for damage that is repaired"
    assert partition.leader_epoch == leader_epoch


async def _abandon_a_stream(cluster: SimCluster, machine: SimMachine, *, damaged: bool = False) -> float:
    """A heartbeat is under way until the next stream is opened; returns when it has come for sure."""
    active = active_controller(cluster)
    assert active is not None
    assert machine.broker is not None
    session_s = machine.config.broker_session_timeout_ms / 1000
    _delay(cluster, machine, [active], _LATE_S)
    if damaged:
        damage_log(machine, replica_on(machine))
    # One that is under way already is not late; the next one is.
    await cluster.clock.sleep(machine.config.broker_heartbeat_interval_ms / 1000 + 0.1)
    sent_by = cluster.clock.monotonic()
    await cluster.clock.sleep(2 * session_s)
    _delay(cluster, machine, [active], None)
    lease = machine.broker._lease
    await cluster.until(lambda: lease.is_valid)
    return sent_by + _LATE_S


async def _start_unheard(cluster: SimCluster, machine: SimMachine) -> float:
    """A process that sends its registration; returns when that has come for sure."""
    _delay(cluster, machine, cluster.controllers, _LATE_S)
    machine.start()
    await cluster.clock.sleep(_STARTED_WITHIN_S)
    _delay(cluster, machine, cluster.controllers, None)
    return cluster.clock.monotonic() + _LATE_S


def _delay(cluster: SimCluster, machine: SimMachine, to: Iterable[SimMachine], late_s: float | None) -> None:
    faults = None if late_s is None else LinkFaults(delay_s=(late_s, late_s))
    for controller in to:
        cluster.network.set_faults(machine.name, controller.name, faults)


async def _create_with_first_on(cluster: SimCluster, first: int, *, replicas: list[int]) -> None:
    async with cluster.admin() as admin:
        await admin.create_topic(
            "t", assignments={0: replicas}, configs={"durability": "fsync", "min.insync.replicas": 1}
        )
    await cluster.until(lambda: _partition(cluster).leader == first)


async def _die(cluster: SimCluster, machine: SimMachine) -> None:
    machine.kill()
    await cluster.until(lambda: _broker(cluster, machine).is_fenced)


async def _wait_until(cluster: SimCluster, when: float) -> None:
    await cluster.clock.sleep(when - cluster.clock.monotonic())


def _broker(cluster: SimCluster, machine: SimMachine) -> BrokerImage:
    return newest_image(cluster).brokers[machine.config.node_id]


def _partition(cluster: SimCluster) -> PartitionImage:
    topic = newest_image(cluster).topic_named(TOPIC.topic)
    assert topic is not None
    return topic.partitions[TOPIC.partition]
