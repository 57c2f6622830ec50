"""Who leads, who is in the ISR and who in the ELR after a change (rules 2, 27-29, 33)."""

from __future__ import annotations

from collections.abc import Iterable

from quorate.chaos.models.controller.small_cluster import SmallCluster
from quorate.controller.brokers import fence_broker
from quorate.controller.elections import Assignment, Elections
from quorate.core.ids import BrokerId
from quorate.metadata.image import NO_LEADER, UNCLEAN_EPOCHS_MAX, PartitionImage, Recovery


def ids(*broker_ids: int) -> tuple[BrokerId, ...]:
    return tuple(map(BrokerId, broker_ids))


def cluster_of(*replicas: int, min_isr: int = 2, unclean: bool = False) -> SmallCluster:
    cluster = SmallCluster(max(replicas))
    configs = {"min.insync.replicas": str(min_isr)}
    if unclean:
        configs["unclean.leader.election.enable"] = "true"
    cluster.create("t", replicas, configs=configs)
    return cluster


def fence(cluster: SmallCluster, *broker_ids: int) -> PartitionImage:
    for broker_id in broker_ids:
        cluster.commit(fence_broker(cluster.image, BrokerId(broker_id)))
    return cluster.partition()


def elect_again(cluster: SmallCluster) -> PartitionImage:
    elections = Elections(cluster.image)
    elections.change(cluster.partition())
    cluster.put(*elections.records)
    return cluster.partition()


def lose(cluster: SmallCluster, broker_ids: Iterable[int]) -> PartitionImage:
    elections = Elections(cluster.image)
    elections.change(cluster.partition(), lost=ids(*broker_ids))
    cluster.put(*elections.records)
    return cluster.partition()


def test_a_follower_that_goes_leaves_the_isr_and_the_leader_epoch_stays() -> None:
    cluster = cluster_of(1, 2, 3)
    before = cluster.partition()
    after = fence(cluster, 3)
    assert (after.isr, after.elr, after.leader) == (ids(1, 2), (), 1)
    assert after.leader_epoch == before.leader_epoch
    assert after.partition_epoch == before.partition_epoch + 1


def test_the_first_replica_in_the_isr_takes_over_in_a_new_epoch() -> None:
    cluster = cluster_of(3, 1, 2)
    before = cluster.partition()
    after = fence(cluster, 3)
    assert (after.isr, after.leader, after.leader_epoch) == (ids(1, 2), 1, before.leader_epoch + 1)


def test_members_that_leave_below_min_isr_go_to_the_elr() -> None:
    after = fence(cluster_of(1, 2, 3), 3, 2)
    assert (after.isr, after.elr, after.leader) == (ids(1), ids(2), 1)


def test_with_a_min_isr_of_one_there_is_never_an_elr() -> None:
    after = fence(cluster_of(1, 2, 3, min_isr=1), 1, 2)
    assert (after.isr, after.elr, after.leader) == (ids(3), (), 3)


def test_the_last_member_stays_in_the_isr_without_leading() -> None:
    cluster = cluster_of(1, 2, 3)
    before = cluster.partition()
    after = fence(cluster, 1, 2, 3)
    assert (after.isr, after.elr, after.leader) == (ids(3), ids(2), NO_LEADER)
    assert after.leader_epoch == before.leader_epoch + 3


def test_a_member_of_the_elr_is_elected_alone_and_the_fenced_rest_becomes_the_elr() -> None:
    cluster = cluster_of(1, 2, 3)
    fence(cluster, 1, 2, 3)
    cluster.change_broker(2, is_fenced=False)
    after = elect_again(cluster)
    assert (after.isr, after.elr, after.leader) == (ids(2), ids(3), 2)


def test_a_replica_outside_isr_and_elr_is_never_elected() -> None:
    cluster = cluster_of(1, 2, 3)
    offline = fence(cluster, 1, 2, 3)
    cluster.change_broker(1, is_fenced=False)
    assert elect_again(cluster) == offline


def test_the_isr_comes_before_the_elr_whatever_the_order_of_the_replicas() -> None:
    cluster = cluster_of(1, 2, 3, min_isr=3)
    cluster.set_partition(isr=[2, 3], elr=[1], leader=2)
    after = fence(cluster, 2)
    assert (after.isr, after.elr, after.leader) == (ids(3), ids(1, 2), 3)


def test_a_replica_that_has_lost_records_leaves_isr_and_elr_even_as_the_last_one() -> None:
    cluster = cluster_of(1, 2, 3)
    fence(cluster, 3, 2)
    cluster.change_broker(2, is_fenced=False)
    after = lose(cluster, [1])
    assert (after.isr, after.elr, after.leader, after.last_known_elr) == (ids(2), (), 2, ids(1))
    after = lose(cluster, [2])
    assert (after.isr, after.elr, after.leader, after.last_known_elr) == ((), (), NO_LEADER, ids(1, 2))


def test_the_last_known_leader_is_not_elected() -> None:
    cluster = cluster_of(1, 2, 3)
    offline = lose(cluster, [1, 2, 3])
    assert offline.leader == NO_LEADER
    assert elect_again(cluster) == offline


def test_enough_members_in_sync_empty_elr_and_last_known_elr() -> None:
    cluster = cluster_of(1, 2, 3)
    cluster.set_partition(isr=[1], elr=[2])
    lose(cluster, [2])
    elections = Elections(cluster.image)
    after = elections.change(cluster.partition(), isr=ids(1, 3))
    assert (after.isr, after.elr, after.last_known_elr) == (ids(1, 3), (), ())


def test_draining_brokers_lead_only_where_nobody_else_can() -> None:
    cluster = cluster_of(1, 2, 3)
    cluster.change_broker(2, is_draining=True)
    assert fence(cluster, 1).leader == 3
    assert fence(cluster, 3).leader == 2


def test_a_stopping_broker_is_not_elected() -> None:
    cluster = cluster_of(1, 2, 3)
    cluster.change_broker(2, is_shutting_down=True)
    assert fence(cluster, 1).leader == 3


def test_where_it_is_allowed_anybody_is_elected_and_everything_says_so() -> None:
    cluster = cluster_of(1, 2, 3, unclean=True)
    cluster.set_partition(isr=[1])
    cluster.events.clear()
    after = fence(cluster, 1)
    assert (after.leader, after.isr, after.elr) == (2, ids(2), ())
    assert after.unclean_leader_epochs == (after.leader_epoch,)
    assert after.recovery is Recovery.RECOVERING
    assert "unclean_leader_election" in cluster.warnings()


def test_of_very_many_unclean_elections_the_last_are_remembered() -> None:
    cluster = cluster_of(1, 2, unclean=True)
    seen: list[int] = []
    for number in range(2 * UNCLEAN_EPOCHS_MAX):
        leader, other = (1, 2) if number % 2 == 0 else (2, 1)
        cluster.set_partition(isr=[leader], leader=leader)
        after = fence(cluster, leader)
        assert after.leader == other
        seen.append(after.leader_epoch)
        # What was decided, and what all others make of the record.
        assert list(after.unclean_leader_epochs) == seen[-UNCLEAN_EPOCHS_MAX:]
        cluster.change_broker(leader, is_fenced=False)
    assert len(set(seen)) == len(seen)


def test_not_even_an_unclean_election_takes_a_replica_that_has_just_lost_records() -> None:
    cluster = cluster_of(1, 2, 3, unclean=True)
    cluster.set_partition(isr=[1])
    assert lose(cluster, [1]).leader == 2


def test_a_reassignment_that_is_under_way_does_not_raise_min_isr() -> None:
    cluster = SmallCluster(3)
    cluster.create("t", [1], configs={"min.insync.replicas": "2"})
    growing = Assignment(ids(1, 2, 3), adding=ids(2, 3))
    elections = Elections(cluster.image)
    grown = elections.change(cluster.partition(), assignment=growing)
    swapped = elections.change(grown, isr=ids(1, 2), leader=BrokerId(2))
    after = elections.change(swapped, isr=ids(2))
    assert (after.isr, after.elr, after.leader) == (ids(2), (), 2)


def test_nothing_changes_without_a_record() -> None:
    cluster = cluster_of(1, 2, 3)
    elections = Elections(cluster.image)
    assert elections.change(cluster.partition(), isr=ids(3, 2, 1)) is cluster.partition()
    assert elections.records == []
