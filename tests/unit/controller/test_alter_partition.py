"""A leader asks for another ISR: what is checked, and how a refusal is typed (rules 21-24, 34, 47)."""

from __future__ import annotations

from typing import Any

import pytest

from quorate.chaos.models.controller.broker_requests import alteration, ask_for_isr, epoch_of
from quorate.chaos.models.controller.small_cluster import SmallCluster
from quorate.controller.alter_partition import alter_partition
from quorate.controller.brokers import fence_broker
from quorate.core.ids import BrokerId
from quorate.errors import StaleBrokerEpoch
from quorate.metadata.image import Recovery
from quorate.v1.controller_pb2 import AlterPartitionRequest, PartitionAlterationResult
from quorate.v1.metadata_pb2 import RECOVERY_STATE_NORMAL, RECOVERY_STATE_RECOVERING


@pytest.fixture
def cluster() -> SmallCluster:
    cluster = SmallCluster(4)
    cluster.create("t", [1, 2, 3], [1, 2, 3])
    return cluster


def refusal(cluster: SmallCluster, isr: list[int], **facts: Any) -> str:
    offset = cluster.image.offset
    (result,) = ask_for_isr(cluster, 1, alteration(cluster, cluster.partition(), isr, **facts))
    assert cluster.image.offset == offset, "a refusal changed something"
    return result.error.code


def test_an_isr_is_committed_and_told_as_it_is_now(cluster: SmallCluster) -> None:
    before = cluster.partition()
    (result,) = ask_for_isr(cluster, 1, alteration(cluster, before, [2, 1]))
    assert not result.HasField("error")
    assert list(result.isr) == list(cluster.partition().isr) == [1, 2]
    assert result.partition_epoch == before.partition_epoch + 1
    assert (result.leader, result.leader_epoch) == (1, before.leader_epoch)
    assert result.recovery_state == RECOVERY_STATE_NORMAL


def test_members_that_leave_below_min_isr_become_eligible(cluster: SmallCluster) -> None:
    ask_for_isr(cluster, 1, alteration(cluster, cluster.partition(), [1]))
    assert (cluster.partition().isr, cluster.partition().elr) == ((1,), (2, 3))


def test_an_earlier_run_of_the_leader_is_refused_as_a_whole(cluster: SmallCluster) -> None:
    wish = alteration(cluster, cluster.partition(), [1])
    with pytest.raises(StaleBrokerEpoch):
        ask_for_isr(cluster, 1, wish, broker_epoch=epoch_of(cluster, 1) - 1)


@pytest.mark.parametrize(
    ("facts", "code"),
    [
        ({"leader_epoch": 0}, "FENCED_LEADER_EPOCH"),
        ({"leader_epoch": 2}, "NOT_CONTROLLER"),
        ({"partition_epoch": 0}, "INVALID_UPDATE_VERSION"),
        ({"partition_epoch": 2}, "NOT_CONTROLLER"),
        ({"member_epochs": {2: 1}}, "INELIGIBLE_REPLICA"),
        ({"member_epochs": {1: 1}}, "INELIGIBLE_REPLICA"),
        ({"recovery_state": RECOVERY_STATE_RECOVERING}, "INVALID_REQUEST"),
        ({"recovery_state": 77}, "INVALID_REQUEST"),
    ],
)
def test_whatever_the_leader_assumed_is_checked(
    cluster: SmallCluster, facts: dict[str, Any], code: str
) -> None:
    cluster.set_partition(leader=1)
    assert (cluster.partition().leader_epoch, cluster.partition().partition_epoch) == (1, 1)
    assert refusal(cluster, [1, 2], **facts) == code


@pytest.mark.parametrize("isr", [[], [2, 3], [1, 2, 2], [1, 4]])
def test_an_isr_that_makes_no_sense_is_refused(cluster: SmallCluster, isr: list[int]) -> None:
    assert refusal(cluster, isr) == "INVALID_REQUEST"


@pytest.mark.parametrize("state", ["is_fenced", "is_shutting_down"])
def test_a_member_that_is_not_active_is_refused(cluster: SmallCluster, state: str) -> None:
    cluster.set_partition(isr=[1, 2])
    cluster.change_broker(3, **{state: True})
    assert refusal(cluster, [1, 2, 3]) == "INELIGIBLE_REPLICA"


def test_the_change_of_epochs_is_told_before_the_state_of_members(cluster: SmallCluster) -> None:
    """INELIGIBLE_REPLICA lets the leader forget its proposal, so it must not hide that it was applied."""
    wish = alteration(cluster, cluster.partition(), [1, 3])
    ask_for_isr(cluster, 1, wish)
    cluster.change_broker(3, is_fenced=True)
    (result,) = ask_for_isr(cluster, 1, wish)
    assert result.error.code == "INVALID_UPDATE_VERSION"


def test_a_delayed_request_does_not_admit_a_broker_whose_disk_was_wiped_since(cluster: SmallCluster) -> None:
    cluster.set_partition(isr=[1, 2])
    delayed = alteration(cluster, cluster.partition(), [1, 2, 3])
    cluster.add_broker(3)
    (result,) = ask_for_isr(cluster, 1, delayed)
    assert result.error.code == "INELIGIBLE_REPLICA"


def test_who_does_not_lead_is_refused(cluster: SmallCluster) -> None:
    (result,) = ask_for_isr(cluster, 2, alteration(cluster, cluster.partition(), [1, 2]))
    assert result.error.code == "NOT_LEADER_OR_FOLLOWER"


def test_an_unknown_partition_is_refused(cluster: SmallCluster) -> None:
    wish = alteration(cluster, cluster.partition(), [1])
    cluster.delete()
    (result,) = ask_for_isr(cluster, 1, wish)
    assert result.error.code == "UNKNOWN_TOPIC_OR_PARTITION"


def test_one_bad_partition_does_not_spoil_the_others(cluster: SmallCluster) -> None:
    bad = alteration(cluster, cluster.partition(0), [2])
    good = alteration(cluster, cluster.partition(1), [1, 2])
    results = ask_for_isr(cluster, 1, bad, good, good)
    assert [result.error.code for result in results] == ["INVALID_REQUEST", "", "OPERATION_NOT_ATTEMPTED"]
    assert cluster.partition(0).isr == (1, 2, 3)
    assert cluster.partition(1).isr == (1, 2)


def test_asking_for_what_is_changes_nothing(cluster: SmallCluster) -> None:
    offset = cluster.image.offset
    (result,) = ask_for_isr(cluster, 1, alteration(cluster, cluster.partition(), [1, 2, 3]))
    assert not result.HasField("error")
    assert cluster.image.offset == offset


def test_after_a_withdrawal_an_earlier_wish_is_refused(cluster: SmallCluster) -> None:
    before = cluster.partition()
    late = alteration(cluster, before, [1, 2])
    withdrawal = alteration(cluster, before, [])
    withdrawal.withdraw = True
    (result,) = ask_for_isr(cluster, 1, withdrawal)
    assert not result.HasField("error")
    assert (list(result.isr), result.partition_epoch) == ([1, 2, 3], before.partition_epoch + 1)
    assert cluster.partition().leader_epoch == before.leader_epoch
    (result,) = ask_for_isr(cluster, 1, late)
    assert result.error.code == "INVALID_UPDATE_VERSION"
    assert cluster.partition().isr == (1, 2, 3)


def test_the_last_old_replica_out_of_the_isr_completes_a_reassignment(cluster: SmallCluster) -> None:
    cluster.move(4, 2, 3)
    before = cluster.partition()
    (result,) = ask_for_isr(cluster, 1, alteration(cluster, before, [1, 2, 3, 4]))
    assert (result.leader, result.leader_epoch) == (4, before.leader_epoch + 1)
    before = cluster.partition()
    (result,) = ask_for_isr(cluster, 4, alteration(cluster, before, [2, 3, 4]))
    after = cluster.partition()
    assert (after.replicas, after.isr, after.adding_replicas) == ((4, 2, 3), (2, 3, 4), ())
    assert after.leader in after.isr
    assert result.leader_epoch == after.leader_epoch > before.leader_epoch
    assert result.partition_epoch == after.partition_epoch


def test_a_recovering_partition_stays_alone_until_its_leader_confirms() -> None:
    cluster = SmallCluster(2)
    cluster.create("t", [1, 2], configs={"unclean.leader.election.enable": "true"})
    cluster.set_partition(isr=[2], leader=2)
    cluster.commit(fence_broker(cluster.image, BrokerId(2)))
    assert cluster.partition().recovery is Recovery.RECOVERING
    cluster.change_broker(2, is_fenced=False)
    assert refusal(cluster, [1, 2]) == "INVALID_REQUEST"
    confirm = alteration(cluster, cluster.partition(), [1], recovery_state=RECOVERY_STATE_NORMAL)
    ask_for_isr(cluster, 1, confirm)
    assert cluster.partition().recovery is Recovery.NORMAL
    ask_for_isr(cluster, 1, alteration(cluster, cluster.partition(), [1, 2]))
    assert cluster.partition().isr == (1, 2)


def test_whoever_is_leaving_is_not_put_back_and_may_stay_until_it_is_taken_out(cluster: SmallCluster) -> None:
    """On record it is well until it has left its last partition; put back each time, it never would."""
    ask_for_isr(cluster, 1, alteration(cluster, cluster.partition(), [1, 2]))

    def ask(isr: list[int]) -> PartitionAlterationResult:
        wish = alteration(cluster, cluster.partition(), isr)
        request = AlterPartitionRequest(broker_id=1, broker_epoch=epoch_of(cluster, 1), partitions=[wish])
        leaving = {BrokerId(2), BrokerId(3)}
        (result,) = cluster.commit(alter_partition(cluster.image, request, leaving=leaving)).partitions
        return result

    assert ask([1, 2, 3]).error.code == "INELIGIBLE_REPLICA"
    assert cluster.partition().isr == (1, 2)
    assert not ask([1, 2]).HasField("error")
    assert not ask([1]).HasField("error")
    assert cluster.partition().isr == (1,)
