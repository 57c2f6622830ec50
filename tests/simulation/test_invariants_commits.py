"""What of a partition is committed, and stays: the observer finds what is wrong, and only that (rule 1)."""

from __future__ import annotations

from quorate.core.ids import BrokerId, LeaderEpoch, Offset
from tests.simulation.ghost_world import NOBODY, GhostWorld, broken

# -- what is not wrong


def test_a_partition_that_does_all_right_is_left_alone() -> None:
    world = GhostWorld(commits=5)
    world.append(1, 2)
    world.die(1)
    world.commit_metadata(isr=(2, 3), leader=2, leader_epoch=1)
    world.lead(2, epoch=1, high_watermark=5, isr=(2, 3))
    world.append(2, epoch=1)
    world.append(3, epoch=1)
    world.lead(2, epoch=1, high_watermark=6, isr=(2, 3))
    world.follow(3, high_watermark=6)
    assert world.watch.committed.end == 6
    assert world.examined["leaderships"] == 2
    assert world.examined["batches committed"] == 6


# -- epochs in the log


def test_an_epoch_is_on_record_before_its_first_batch() -> None:
    world = GhostWorld()
    world.append(1, epoch=2)
    (batch,) = world.copy(1).batches.values()
    world.watch.epoch_began(BrokerId(1), batch, LeaderEpoch(2))
    with broken("epoch-on-record"):
        world.watch.epoch_began(BrokerId(1), batch, LeaderEpoch(1))


# -- committing


def test_what_is_committed_has_to_lie_on_min_isr_brokers() -> None:
    world = GhostWorld()
    world.commit_metadata(isr=(1,))
    world.append(1)
    with broken("min-isr-copies"):
        world.lead(1, epoch=0, high_watermark=1, isr=(1,))


def test_under_fsync_on_their_devices() -> None:
    world = GhostWorld(is_synced=True)
    world.append(1)
    world.append(2, is_synced=False)
    world.append(3, is_synced=False)
    with broken("min-isr-copies"):
        world.lead(1, epoch=0, high_watermark=1)


def test_a_client_must_not_be_told_before() -> None:
    world = GhostWorld(commits=3)
    world.watch.acknowledged(Offset(2))
    with broken("min-isr-copies"):
        world.watch.acknowledged(Offset(3))


def test_two_logs_that_differ_below_their_high_watermarks_are_found() -> None:
    world = GhostWorld()
    world.commit_metadata(isr=(1, 2))
    world.append(1)
    world.append(2)
    world.append(3, epoch=7)
    world.lead(1, epoch=0, high_watermark=1, isr=(1, 2))
    world.follow(3)
    with broken("log-matching"):
        world.follow(3, high_watermark=1)


def test_a_deposed_leader_that_commits_something_else_is_found() -> None:
    world = GhostWorld()
    world.commit_metadata(isr=(2, 3), leader=2, leader_epoch=1)
    world.append(1, 2)
    world.append(2, epoch=1)
    world.append(3, epoch=1)
    world.lead(2, epoch=1, high_watermark=1, isr=(2, 3))
    with broken("log-matching"):
        world.lead(1, epoch=0, high_watermark=2)


# -- the high watermark and the log start


def test_a_high_watermark_that_moves_back_is_found() -> None:
    world = GhostWorld(commits=5)
    with broken("high-watermark"):
        world.follow(2, high_watermark=4)


def test_a_follower_that_starts_anew_may_know_less() -> None:
    world = GhostWorld(commits=5)
    world.die(2)
    world.follow(2, high_watermark=0, is_first=True)
    assert world.watch.committed.end == 5


def test_a_log_that_is_made_anew_outside_the_isr_takes_its_high_watermark_along() -> None:
    world = GhostWorld(commits=5)
    world.commit_metadata(isr=(1, 2))
    world.cut(3, 0)
    world.follow(3, high_watermark=0, is_cut=True)
    assert world.watch.committed.end == 5


def test_a_follower_knows_nothing_to_be_committed_that_no_leader_has_committed() -> None:
    world = GhostWorld()
    world.append(2)
    with broken("high-watermark"):
        world.follow(2, high_watermark=1)


def world_with_the_next_leader() -> GhostWorld:
    """Five were committed by broker 1; broker 2 was elected, and has started anew."""
    world = GhostWorld(commits=5)
    world.commit_metadata(leader=2, leader_epoch=1)
    world.die(2)
    return world


def test_a_new_leader_shows_clients_no_less_than_they_were_shown() -> None:
    world = world_with_the_next_leader()
    with broken("high-watermark"):
        world.lead(2, epoch=1, high_watermark=4, is_known=True)


def test_a_new_leader_that_does_not_know_yet_may_know_less() -> None:
    world = world_with_the_next_leader()
    world.lead(2, epoch=1, high_watermark=4, is_known=False)
    world.lead(2, epoch=1, high_watermark=5, is_known=True)


def test_retention_takes_what_is_committed_and_that_is_no_loss() -> None:
    world = GhostWorld(commits=5)
    world.watch.log_start_moved(BrokerId(1), before=Offset(0), now=Offset(3), high_watermark=Offset(5))
    world.copy(1).batches = {base: batch for base, batch in world.copy(1).batches.items() if base >= 3}
    world.copy(1).log_start_offset = Offset(3)
    world.copy(1).complete_to = Offset(0)
    world.lead(1, epoch=0, high_watermark=5)
    assert world.copy(1).complete_to == 5


def test_retention_must_not_take_what_is_not_committed() -> None:
    world = GhostWorld(commits=5)
    with broken("log-start"):
        world.watch.log_start_moved(BrokerId(1), before=Offset(0), now=Offset(6), high_watermark=Offset(5))


def test_a_log_start_that_moves_back_is_found() -> None:
    world = GhostWorld(commits=5)
    with broken("log-start"):
        world.watch.log_start_moved(BrokerId(1), before=Offset(3), now=Offset(2), high_watermark=Offset(5))


def test_a_log_start_that_only_the_device_knew_counts_from_the_start_that_finds_it() -> None:
    world = GhostWorld(commits=5)
    world.watch.log_start_found(BrokerId(2), before=Offset(0), now=Offset(3))
    assert world.watch.committed.start == 3


def test_nor_may_a_start_find_that_more_was_dropped_than_is_committed() -> None:
    world = GhostWorld(commits=5)
    with broken("log-start"):
        world.watch.log_start_found(BrokerId(2), before=Offset(0), now=Offset(6))


# -- operators


def test_what_an_operator_has_given_up_is_not_missed() -> None:
    world = GhostWorld(commits=5)
    for broker_id in (1, 2, 3):
        world.copy(broker_id).is_out_of_service = True
    world.commit_metadata(isr=(), elr=(), leader=NOBODY, leader_epoch=1)
    world.cut(3, 2)
    world.die(3)
    world.copy(3).is_out_of_service = False
    world.commit_metadata(isr=(3,), leader=3, leader_epoch=2, unclean=(2,))
    world.lead(3, epoch=2, high_watermark=2, isr=(3,), start=2)
    assert world.watch.committed.end == 2


def given_up_from_2() -> GhostWorld:
    """Five were committed by 1 and 2; an operator has 3 lead, which has two of them."""
    world = GhostWorld(commits=2)
    world.commit_without_3(3)
    world.follow(2, high_watermark=5)
    world.commit_metadata(isr=(3,), leader=3, leader_epoch=1, unclean=(1,))
    world.lead(3, epoch=1, high_watermark=2, isr=(3,), can_commit=False)
    return world


def test_who_still_holds_what_was_given_up_may_say_that_it_is_committed() -> None:
    world = given_up_from_2()
    assert [loss.from_offset for loss in world.watch.losses] == [2]
    world.follow(2, high_watermark=5)
    world.append(3, epoch=1)
    world.cut(1, 2)
    world.append(1, epoch=1)
    world.lead(3, epoch=1, high_watermark=3, isr=(3, 1))
    world.follow(2, high_watermark=4)
    world.follow(1, high_watermark=3)


def test_who_has_dropped_what_was_given_up_is_believed_no_more_than_others() -> None:
    world = given_up_from_2()
    world.cut(2, 2)
    world.append(2, epoch=1)
    with broken("high-watermark"):
        world.follow(2, high_watermark=3)


def test_what_a_leader_of_the_past_commits_is_lost_as_well() -> None:
    world = given_up_from_2()
    world.append(1)
    world.append(2)
    world.lead(1, epoch=0, high_watermark=6, isr=(1, 2))
    world.follow(2, high_watermark=6)
    assert world.watch.committed.end == 2


def test_a_candidate_that_still_holds_what_was_given_up_is_no_candidate() -> None:
    world = given_up_from_2()
    world.lead(3, epoch=1, high_watermark=2, can_commit=False)
    world.cut(1, 2)
    for broker_id in (3, 1):
        world.append(broker_id, epoch=1)
    world.lead(3, epoch=1, high_watermark=3)
    with broken("candidate-completeness"):
        world.commit_metadata(isr=(3, 2))


def test_what_is_committed_after_that_may_not_be_lost() -> None:
    world = given_up_from_2()
    world.cut(1, 2)
    for broker_id in (3, 1):
        world.append(broker_id, epoch=1)
    world.lead(3, epoch=1, high_watermark=3, isr=(3, 1))
    world.commit_metadata(isr=(3, 1))
    world.cut(1, 2)
    with broken("candidate-completeness"):
        world.follow(1, high_watermark=2, is_cut=True)
