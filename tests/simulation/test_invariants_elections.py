"""Who may be elected, who leads and who joins: the observer finds what is wrong, and only that (rule 1)."""

from __future__ import annotations

from quorate.core.ids import BrokerId, Offset
from tests.simulation.ghost_world import NOBODY, GhostWorld, broken

# -- who may be elected


def test_a_member_of_the_isr_that_lacks_a_committed_record_is_found() -> None:
    world = GhostWorld()
    for broker_id in (1, 2, 3):
        world.append(broker_id, 5)
    world.lead(1, epoch=0, high_watermark=5)
    world.cut(3, 4)
    with broken("candidate-completeness"):
        world.follow(3, is_cut=True)


def test_a_member_of_the_elr_counts_as_well() -> None:
    world = GhostWorld()
    world.commit_metadata(isr=(1, 2))
    world.append(1)
    world.append(2)
    world.lead(1, epoch=0, high_watermark=1)
    with broken("candidate-completeness"):
        world.commit_metadata(isr=(1,), elr=(3,))


def test_a_member_that_is_down_and_whose_disk_lacks_a_record_is_found() -> None:
    world = GhostWorld(commits=5)
    world.cut(3, 4)
    with broken("candidate-completeness"):
        world.die(3)


def test_a_member_that_is_down_is_looked_at_too() -> None:
    world = GhostWorld(commits=1)
    before = world.examined["candidates that are down"]
    world.die(3)
    assert world.examined["candidates that are down"] > before


def test_a_member_without_any_log_is_found() -> None:
    world = GhostWorld(commits=1)
    with broken("candidate-completeness"):
        world.watch.replica_left(BrokerId(3))


def test_a_replica_outside_isr_and_elr_may_lack_anything() -> None:
    world = GhostWorld()
    world.commit_without_3()
    assert world.watch.committed.end == 1


def test_under_fsync_a_member_has_to_have_it_on_the_device() -> None:
    world = GhostWorld(is_synced=True)
    world.append(1)
    world.append(2)
    world.append(3, is_synced=False)
    with broken("candidate-completeness"):
        world.lead(1, epoch=0, high_watermark=1)


def test_metadata_calls_a_partition_synced_only_when_all_that_is_committed_is() -> None:
    world = GhostWorld()
    for broker_id in (1, 2, 3):
        world.append(broker_id, is_synced=False)
    world.lead(1, epoch=0, high_watermark=1)
    with broken("candidate-completeness"):
        world.commit_metadata(is_synced=True)


def test_a_log_may_know_less_of_what_is_synced_than_the_disk_and_not_more() -> None:
    world = GhostWorld()
    world.watch.recovery_point_moved(BrokerId(2), claimed=Offset(4), unsynced=Offset(5))
    world.watch.recovery_point_moved(BrokerId(2), claimed=Offset(5), unsynced=Offset(5))
    with broken("recovery-point"):
        world.watch.recovery_point_moved(BrokerId(2), claimed=Offset(6), unsynced=Offset(5))


# -- what faults take


def test_a_loss_is_excused_until_the_broker_is_back_and_not_longer() -> None:
    world = GhostWorld(commits=5)
    world.lose_power(3, kept=2)
    assert world.examined["candidates excused"] > 0
    world.copy(3).report_loss()
    with broken("unclean-exclusion"):
        world.watch.settle()


def test_a_replica_that_has_failed_is_excused_until_it_says_that_it_is_well() -> None:
    world = GhostWorld(commits=5)
    world.copy(3).is_out_of_service = True
    world.cut(3, 0)
    world.die(3)
    world.copy(3).is_out_of_service = False
    with broken("candidate-completeness"):
        world.watch.settle()


def test_what_rots_unseen_is_excused() -> None:
    world = GhostWorld(commits=2)
    world.copy(3).is_rotten = True
    world.cut(3, 1)
    world.follow(3, high_watermark=2)
    assert world.examined["candidates excused"] > 0


def test_an_acknowledgement_that_was_under_way_when_the_disk_was_lost_counts() -> None:
    """The follower had it when it said so; the leader cannot know better."""
    world = GhostWorld()
    world.commit_metadata(isr=(1, 2))
    world.append(1)
    world.append(2)
    world.lose_power(2, kept=0)
    world.lead(1, epoch=0, high_watermark=1, isr=(1, 2))
    assert world.watch.committed.end == 1


def world_with_a_loss_that_is_known() -> GhostWorld:
    """Broker 2 had a record of broker 1's, has lost it, and is back; broker 1 has not committed it yet."""
    world = GhostWorld()
    world.commit_metadata(isr=(1, 2))
    world.append(1)
    world.append(2)
    world.lead(1, epoch=0, high_watermark=0, isr=(1, 2))
    world.lose_power(2, kept=0)
    world.copy(2).report_loss()
    return world


def test_so_does_one_that_a_deposed_leader_hears_of_when_the_loss_is_known() -> None:
    """It stood still meanwhile. All who may be elected have the record."""
    world = world_with_a_loss_that_is_known()
    world.commit_metadata(leader=NOBODY, leader_epoch=1, isr=(), elr=(1,))
    world.lead(1, epoch=0, high_watermark=1, isr=(1, 2))
    assert world.watch.committed.end == 1


def test_but_not_for_whoever_leads_by_the_metadata_that_knows_of_the_loss() -> None:
    world = world_with_a_loss_that_is_known()
    with broken("min-isr-copies"):
        world.lead(1, epoch=0, high_watermark=1, isr=(1, 2))


def test_a_record_that_nobody_holds_any_more_is_found() -> None:
    world = GhostWorld(commits=1)
    for broker_id in (1, 2, 3):
        world.copy(broker_id).lose(is_synced=False)
        world.cut(broker_id, 0)
    with broken("no-global-loss"):
        for broker_id in (1, 2, 3):
            world.die(broker_id)


# -- who leads


def test_a_leader_that_lacks_what_the_one_before_has_committed_is_found() -> None:
    world = GhostWorld()
    world.commit_without_3()
    world.watch.copies[BrokerId(3)].is_out_of_service = True
    world.commit_metadata(isr=(3,), leader=3, leader_epoch=1)
    with broken("leader-completeness"):
        world.lead(3, epoch=1, isr=(3,), can_commit=False)


def test_a_leader_that_hears_of_its_time_when_it_is_over_need_not_have_what_came_after() -> None:
    world = GhostWorld()
    world.commit_metadata(isr=(1, 2, 3), leader=2, leader_epoch=1)
    world.commit_metadata(isr=(1, 3), leader=1, leader_epoch=2)
    world.append(1, epoch=2)
    world.append(3, epoch=2)
    world.lead(1, epoch=2, high_watermark=1, isr=(1, 3))
    world.lead(2, epoch=1)
    assert world.examined["leaderships"] == 3


def test_two_leaders_in_one_epoch_are_found() -> None:
    world = GhostWorld()
    with broken("one-leader-per-epoch"):
        world.lead(2, epoch=0)


def test_a_broker_that_leads_again_after_a_start_needs_another_epoch() -> None:
    world = GhostWorld()
    world.die(1)
    with broken("one-leader-per-epoch"):
        world.lead(1, epoch=0, start=2)


def test_a_leader_that_metadata_does_not_name_is_found() -> None:
    world = GhostWorld()
    world.commit_metadata(leader=2, leader_epoch=1)
    with broken("one-leader-per-epoch"):
        world.lead(3, epoch=1)


def test_a_leader_in_an_epoch_that_nobody_has_committed_is_found() -> None:
    world = GhostWorld()
    with broken("one-leader-per-epoch"):
        world.lead(2, epoch=1)


def test_who_may_be_elected_has_to_be_waited_for() -> None:
    world = GhostWorld()
    with broken("replication-quorum"):
        world.lead(1, epoch=0, isr=(1, 2))


def test_a_leader_that_cannot_commit_need_not_wait_for_the_elr() -> None:
    world = GhostWorld()
    world.commit_metadata(isr=(1,), elr=(3,))
    world.lead(1, epoch=0, isr=(1,), can_commit=False)
    with broken("replication-quorum"):
        world.lead(1, epoch=0, isr=(1,), can_commit=True)


# -- who is to join


def test_whom_a_leader_asks_for_holds_what_is_committed() -> None:
    world = GhostWorld()
    world.commit_metadata(isr=(1, 2))
    world.lead(1, epoch=0, isr=(1, 2))
    world.append(1)
    world.append(2)
    world.lead(1, epoch=0, high_watermark=1, isr=(1, 2))
    with broken("admission"):
        world.lead(1, epoch=0, high_watermark=1, isr=(1, 2, 3))


def test_who_has_caught_up_may_join() -> None:
    world = GhostWorld()
    world.commit_metadata(isr=(1, 2))
    world.lead(1, epoch=0, isr=(1, 2))
    world.append(1, 2)
    world.append(2)
    world.append(3)
    world.follow(3)
    # The second record is not committed yet: it may be missing.
    world.lead(1, epoch=0, high_watermark=1, isr=(1, 2))
    world.lead(1, epoch=0, high_watermark=1, isr=(1, 2, 3))
    assert world.examined["admissions"] == 1


def test_of_what_a_fault_took_since_its_last_fetch_a_leader_need_not_know() -> None:
    world = GhostWorld()
    world.commit_metadata(isr=(1, 2))
    world.lead(1, epoch=0, isr=(1, 2))
    world.append(1)
    world.append(2)
    world.lead(1, epoch=0, high_watermark=1, isr=(1, 2))
    world.copy(3).report_loss()
    world.lead(1, epoch=0, high_watermark=1, isr=(1, 2, 3))
