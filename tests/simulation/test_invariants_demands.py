"""What a plan demands counts, whatever controller and leader take for it."""

from __future__ import annotations

import contextlib
from dataclasses import replace

from quorate.chaos.cluster.plan import TopicPlan
from quorate.chaos.invariants.demands import Demands, PartitionDemands
from quorate.core.config import Durability
from quorate.core.ids import BrokerId, LeaderEpoch, Offset
from quorate.errors import Unavailable
from tests.simulation.ghost_world import BATCH_BYTES, GhostWorld, broken, partition_image

PLANNED = TopicPlan("t", 1, 3, min_insync_replicas=2, durability=Durability.FSYNC)


def in_epoch(demands: Demands, epoch: int = 0) -> PartitionDemands:
    found = PartitionDemands(demands, "t")
    found.image_changed(partition_image(leader_epoch=epoch))
    return found


def test_a_leader_that_takes_min_isr_for_less_than_was_demanded_is_found() -> None:
    world = GhostWorld(demands=Demands([PLANNED]))
    world.commit_metadata(isr=(1,))
    world.append(1)
    with broken("min-isr-copies"):
        world.lead(1, epoch=0, high_watermark=1, isr=(1,), min_isr=1)


def test_metadata_that_does_not_call_a_partition_synced_excuses_nobody_where_the_plan_does() -> None:
    world = GhostWorld(demands=Demands([PLANNED]), is_synced=False)
    for broker_id in (1, 2, 3):
        world.append(broker_id, is_synced=False)
    with broken("min-isr-copies"):
        world.lead(1, epoch=0, high_watermark=1)


def test_after_an_unclean_election_the_metadata_says_what_is_synced() -> None:
    demands = in_epoch(Demands([PLANNED]))
    assert demands.is_synced(partition_image())
    assert not demands.is_synced(partition_image(unclean=(3,)))


def test_a_durability_that_was_changed_is_known_to_the_cluster_alone() -> None:
    demands = Demands([PLANNED])
    demands.changing_durability("t")
    assert not in_epoch(demands).is_synced(partition_image())


def test_a_higher_min_isr_holds_in_epochs_that_begin_after_it_was_acknowledged() -> None:
    demands = Demands([PLANNED])
    begun_before = in_epoch(demands)
    with demands.changing_min_isr("t", 3):
        begun_meanwhile = in_epoch(demands)
    begun_after = in_epoch(demands)
    assert begun_before.min_isr_in(LeaderEpoch(0)) == 2
    assert begun_meanwhile.min_isr_in(LeaderEpoch(0)) == 2
    assert begun_after.min_isr_in(LeaderEpoch(0)) == 3


def test_a_lower_min_isr_may_hold_as_soon_as_it_is_asked_for() -> None:
    demands = Demands([PLANNED])
    with demands.changing_min_isr("t", 3):
        pass
    found = in_epoch(demands)
    with demands.changing_min_isr("t", 2):
        assert found.min_isr_in(LeaderEpoch(0)) == 2


def test_a_change_of_unknown_outcome_may_come_at_any_time() -> None:
    demands = Demands([PLANNED])
    with contextlib.suppress(Unavailable), demands.changing_min_isr("t", 1):
        raise Unavailable("nobody knows")
    with demands.changing_min_isr("t", 3):
        pass
    assert in_epoch(demands).min_isr_in(LeaderEpoch(0)) == 1


def test_a_change_that_the_network_may_repeat_is_undone_by_the_one_before() -> None:
    demands = Demands([PLANNED], lambda: True)
    with demands.changing_min_isr("t", 3):
        pass
    assert in_epoch(demands).min_isr_in(LeaderEpoch(0)) == 2


def test_a_topic_that_is_made_anew_begins_as_planned() -> None:
    demands = Demands([PLANNED])
    with demands.changing_min_isr("t", 3):
        pass
    demands.making_anew("t")
    assert in_epoch(demands).min_isr_in(LeaderEpoch(0)) == 2


def test_no_more_is_demanded_than_there_are_replicas() -> None:
    demands = Demands([TopicPlan("t", 1, 3, min_insync_replicas=3, durability=Durability.FSYNC)])
    found = PartitionDemands(demands, "t")
    found.image_changed(replace(partition_image(), adding_replicas=(BrokerId(3),)))
    assert found.min_isr_in(LeaderEpoch(0)) == 2


def test_retention_that_leaves_less_than_it_was_told_is_found() -> None:
    demands = Demands([PLANNED])
    world = GhostWorld(demands=demands, commits=5)
    world.watch.log_start_moved(BrokerId(1), before=Offset(0), now=Offset(1), high_watermark=Offset(5))
    demands.shortening("t", 3 * BATCH_BYTES)
    world.watch.log_start_moved(BrokerId(1), before=Offset(1), now=Offset(2), high_watermark=Offset(5))
    with broken("log-start"):
        world.watch.log_start_moved(BrokerId(2), before=Offset(1), now=Offset(3), high_watermark=Offset(5))


def test_nothing_is_demanded_of_a_topic_that_is_in_no_plan_or_in_an_epoch_that_nobody_has_seen() -> None:
    assert in_epoch(Demands()).min_isr_in(LeaderEpoch(0)) == 1
    assert in_epoch(Demands([PLANNED])).min_isr_in(LeaderEpoch(4)) == 1
