"""Rules of the link as scenarios: they hold, and each mutation of ``of_link`` breaks one."""

from __future__ import annotations

from quorate.broker.controller_link.registration import Registration
from quorate.chaos.sim.network import LinkFaults
from quorate.core.ids import BrokerEpoch, BrokerId, LeaderEpoch
from quorate.errors import ControllerMoved, DuplicateBroker, UnexpectedBrokerEpoch
from quorate.v1.controller_pb2 import PreviousRun, RegisterBrokerResponse, ReplicaName
from tests.unit.controller_link.scripted_controllers import (
    EPOCH,
    INTERVAL_S,
    LEASE_S,
    METADATA_OFFSET,
    ScriptedWorld,
    fenced,
    partitions_of,
    replica,
    run_scripted,
    silent,
    unfenced,
    with_metadata,
)


def holds(rule: str) -> None:
    """One of these scenarios, in a world of its own."""
    run_scripted(globals()[rule])


async def the_lease_runs_from_when_the_heartbeat_was_sent(world: ScriptedWorld) -> None:
    """Rule 37: however slow the answer was."""
    [controller] = world.controllers
    slow_s = 1.5
    world.network.set_faults(controller.name, "b7", LinkFaults(delay_s=(slow_s, slow_s)))
    began_at = world.now
    world.run_session()
    await world.until(lambda: world.lease.is_valid)
    assert world.now - began_at > slow_s
    controller.answer = silent
    await world.clock.sleep(LEASE_S - slow_s)
    assert not world.lease.is_valid


async def a_fenced_answer_gives_no_lease(world: ScriptedWorld) -> None:
    [controller] = world.controllers
    controller.answer = fenced
    world.run_session()
    await world.until(lambda: len(controller.heartbeats) == 3)
    assert not world.lease.is_valid
    controller.answer = unfenced
    await world.until(lambda: world.lease.is_valid)
    controller.answer = fenced
    await world.clock.sleep(INTERVAL_S + 0.01)
    assert not world.lease.is_valid


async def a_broken_stream_ends_the_lease_at_once(world: ScriptedWorld) -> None:
    [controller] = world.controllers
    world.run_session()
    await world.until(lambda: world.lease.is_valid)
    controller.answer = silent
    world.network.break_all_connections(controller.name)
    await world.clock.sleep(0.001)
    assert not world.lease.is_valid
    controller.answer = unfenced
    await world.until(lambda: world.lease.is_valid)


async def an_answer_gives_no_lease_before_the_metadata_that_it_names_is_here(world: ScriptedWorld) -> None:
    """Rule 37: another one may lead by then, and nothing of that be known here."""
    [controller] = world.controllers
    world.run_session()
    await world.until(lambda: world.lease.is_valid)
    controller.answer = with_metadata(METADATA_OFFSET + 1)
    await world.clock.sleep(LEASE_S + INTERVAL_S)
    assert not world.lease.is_valid
    assert controller.streams == 1
    world.lease.metadata_applied(METADATA_OFFSET + 1)
    assert world.lease.is_valid
    # From when the heartbeat was sent, not from now.
    controller.answer = silent
    await world.clock.sleep(LEASE_S - 0.001)
    assert not world.lease.is_valid


async def damage_is_reported_again_after_a_broken_stream(world: ScriptedWorld) -> None:
    """Nobody knows whether it was heard, and a replica that is taken for whole may be elected (rule 44)."""
    [controller] = world.controllers
    controller.answer = silent
    world.session.report_damaged(replica(1), EPOCH)
    world.run_session()
    await world.until(lambda: partitions_of(controller.heartbeats) == [[1]])
    controller.answer = unfenced
    world.network.break_all_connections(controller.name)
    await world.clock.sleep(4 * INTERVAL_S)
    assert partitions_of(controller.heartbeats)[:3] == [[1], [1], []]


async def damage_that_was_repaired_meanwhile_is_not_reported_again(world: ScriptedWorld) -> None:
    """It was heard, or there would be no repair; whoever is whole must not be thrown out of the ISR."""
    [controller] = world.controllers
    controller.answer = silent
    for partition in (1, 2):
        world.session.report_damaged(replica(partition), EPOCH)
    world.run_session()
    await world.until(lambda: partitions_of(controller.heartbeats) == [[1, 2]])
    world.repaired.add(replica(1))
    controller.answer = unfenced
    world.network.break_all_connections(controller.name)
    await world.clock.sleep(4 * INTERVAL_S)
    assert partitions_of(controller.heartbeats)[:3] == [[1, 2], [2], []]


async def damage_that_is_reported_again_names_the_epoch_in_which_it_was_found(world: ScriptedWorld) -> None:
    """In a later one the replica may be whole again by the time that it is heard (rule 44)."""
    [controller] = world.controllers
    controller.answer = silent
    world.session.report_damaged(replica(1), EPOCH)
    world.run_session()
    await world.until(lambda: bool(controller.heartbeats))
    # While that one is under way another epoch begins, and counts on the second.
    world.session.report_damaged(replica(2), EPOCH)
    world.session.report_damaged(replica(2), LeaderEpoch(EPOCH + 1))
    controller.answer = unfenced
    world.network.break_all_connections(controller.name)
    await world.until(lambda: len(controller.heartbeats) == 2)
    named = {each.partition: each.leader_epoch for each in controller.heartbeats[1].damaged}
    assert named == {1: EPOCH, 2: EPOCH + 1}


class FakeDirectory:
    directory_id = "directory"
    cluster_id: str | None = None
    noted_epoch = 3

    def __init__(self) -> None:
        self.notes: list[tuple[object, ...]] = []

    def previous_run(self) -> PreviousRun | None:
        return PreviousRun(broker_epoch=self.noted_epoch, is_clean=True)

    def damaged(self) -> list[ReplicaName]:
        return [ReplicaName(topic_id="topic", partition=4)]

    async def note_incarnation(self, incarnation_id: str) -> None:
        self.notes.append(("incarnation", incarnation_id))

    async def note_epoch(self, broker_epoch: BrokerEpoch, cluster_id: str) -> None:
        self.notes.append(("epoch", broker_epoch, cluster_id))


def registration(world: ScriptedWorld, directory: FakeDirectory) -> Registration:
    return Registration(
        world.link,
        directory,
        broker_id=BrokerId(7),
        address="b7:9092",
        rack="north",
        clock=world.clock,
        rng=world.simulation.rng,
        random_bytes=world.simulation.rng.randbytes,
    )


async def every_attempt_names_the_same_incarnation(world: ScriptedWorld) -> None:
    """Rule 35: else an attempt whose answer was lost would make the next one a second process."""
    [controller] = world.controllers
    granted = RegisterBrokerResponse(broker_epoch=9, cluster_id="cluster")
    controller.reactions = [None, ControllerMoved("perhaps"), DuplicateBroker("it lives"), granted]
    directory = FakeDirectory()
    registered = await registration(world, directory).register()
    assert (registered.broker_epoch, registered.cluster_id) == (9, "cluster")
    requests = [request for _, request in controller.calls]
    assert len(requests) == 4
    [incarnation_id] = {request.incarnation_id for request in requests}
    assert directory.notes == [("incarnation", incarnation_id), ("epoch", 9, "cluster")]


async def a_refused_attempt_is_followed_by_one_that_expects_what_stands(world: ScriptedWorld) -> None:
    """Rule 35: at once, since a start waits for it."""
    [controller] = world.controllers
    granted = RegisterBrokerResponse(broker_epoch=9, cluster_id="cluster")
    stands = UnexpectedBrokerEpoch("another one", current_broker_epoch=8)
    controller.reactions = [stands, DuplicateBroker("it lives"), granted]
    await registration(world, FakeDirectory()).register()
    requests = [request for _, request in controller.calls]
    assert [each.expected_broker_epoch for each in requests] == [FakeDirectory.noted_epoch, 8, 8]
    assert len({each.incarnation_id for each in requests}) == 1
