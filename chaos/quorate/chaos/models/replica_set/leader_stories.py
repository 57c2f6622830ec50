"""Stories of one leader: each is about one rule, and fails if the rule is off."""

from __future__ import annotations

from contextlib import suppress

from quorate.broker.replica.divergence import Divergence
from quorate.chaos.models.controller.broker_requests import alteration, ask_for_isr
from quorate.chaos.models.controller.small_cluster import SmallCluster
from quorate.chaos.models.replica_set.plain_log import Entry
from quorate.chaos.models.replica_set.replica_harness import ReplicaHarness, broker_image, refusal
from quorate.core.ids import LeaderEpoch, Offset
from quorate.errors import (
    FencedLeaderEpoch,
    InvalidUpdateVersion,
    NotEnoughReplicas,
    OffsetNotAvailable,
    OffsetOutOfRange,
    StaleBrokerEpoch,
    UnknownLeaderEpoch,
)
from quorate.v1.controller_pb2 import PartitionAlteration

__all__ = [
    "a_fetch_of_an_earlier_process_does_not_count",
    "a_follower_counts_only_after_a_fetch_in_this_epoch",
    "a_member_keeps_what_its_leader_has_deleted",
    "a_process_that_nobody_has_heard_of_is_not_vouched_for",
    "a_request_that_is_delivered_twice_admits_nobody",
    "a_wish_is_kept_while_it_may_be_granted",
    "an_answer_is_not_undone_by_older_metadata",
    "an_empty_log_of_another_past_begins_anew",
    "an_empty_log_that_may_be_elected_stays",
    "only_the_current_leader_epoch_is_served",
    "too_few_members_refuse_before_the_append",
]


def only_the_current_leader_epoch_is_served() -> None:
    """Rule 3: an older one is fenced, a newer one not known yet."""
    replica = ReplicaHarness()
    leadership = replica.lead(leader_epoch=5)
    assert replica.partition.require_leadership(5) is leadership
    for epoch in (4, 6):
        with suppress(FencedLeaderEpoch, UnknownLeaderEpoch):
            replica.partition.require_leadership(epoch)
            raise AssertionError(f"epoch {epoch} is served, and the leader's is 5")


def an_answer_is_not_undone_by_older_metadata() -> None:
    """Rule 4: they race, and the higher partition epoch wins."""
    replica = ReplicaHarness()
    replica.lead(isr=(1, 2))
    replica.fetch(2, 0)
    replica.fetch(3, 0)
    replica.ask()
    replica.grant((1, 2, 3), partition_epoch=2)
    replica.apply(replica.state(isr=(1, 2), partition_epoch=1))
    assert replica.leadership.isr == (1, 2, 3), "the leader commits without a member"


def a_follower_counts_only_after_a_fetch_in_this_epoch() -> None:
    """Rule 7: it may be another one by now, with an empty disk."""
    replica = ReplicaHarness()
    replica.lead()
    replica.append(10)
    replica.fetch(2, 10)
    replica.fetch(3, 5)
    replica.lead(leader_epoch=1, isr=(1, 2))
    assert replica.high_watermark == 5, "committed by what was fetched in another epoch"
    replica.fetch(2, 10)
    assert replica.high_watermark == 10


def a_fetch_of_an_earlier_process_does_not_count() -> None:
    """Rule 25: by what is registered, and by what has fetched."""
    replica = ReplicaHarness()
    replica.lead(isr=(1, 2), brokers=[broker_image(2, epoch=200)])
    replica.append(2)
    with suppress(StaleBrokerEpoch):
        replica.fetch(2, 2, broker_epoch=102)
    replica.fetch(3, 0, broker_epoch=300)
    with suppress(StaleBrokerEpoch):
        replica.fetch(3, 2, broker_epoch=103)
    assert replica.high_watermark == 0, "committed by a process that is gone"


def an_empty_log_of_another_past_begins_anew() -> None:
    """Rules 8, 12 and 33: it ends where others have written since the leader was forced."""
    replica = ReplicaHarness()
    replica.apply(replica.state(leader_epoch=1, isr=(1,), min_isr=1, unclean=(1,)))
    replica.append(10)
    with suppress(OffsetOutOfRange):
        replica.fetch(3, 5, last_epoch=-1, log_start=5)
        raise AssertionError("a log without records passes for a prefix of what it never held")
    assert replica.fetch(3, 0, last_epoch=-1) is None, "where the leader begins it may begin"


def an_empty_log_that_may_be_elected_stays() -> None:
    """Rules 12 and 28: its end says what it has acknowledged, and it may be elected with that."""
    replica = ReplicaHarness()
    replica.apply(replica.state(leader_epoch=2, isr=(1, 2), elr=(3,), min_isr=3, unclean=(1,)))
    replica.append(10)
    try:
        for broker_id in (2, 3):
            assert replica.fetch(broker_id, 5, last_epoch=-1, log_start=5) is None
    except OffsetOutOfRange as error:
        raise AssertionError("one that may be elected is to end before what is committed") from error


def a_member_keeps_what_its_leader_has_deleted() -> None:
    """Rules 12 and 49: it holds all that is committed, so it agrees as far as the leader has deleted."""
    replica = _leads_with_an_epoch_deleted()
    cut_first = Divergence(LeaderEpoch(0), Offset(3))
    assert replica.fetch(2, 5, last_epoch=0) == cut_first
    assert replica.fetch(2, 3, last_epoch=0) is None, "a member is to forget its producers"
    assert replica.fetch(3, 3, last_epoch=0) == cut_first, "nobody vouches for who is no member"


def a_process_that_nobody_has_heard_of_is_not_vouched_for() -> None:
    """Rules 25 and 30: its start may have cost it records, and its place with them, or nothing."""
    replica = _leads_with_an_epoch_deleted()
    restarted = broker_image(2, epoch=200)
    with suppress(OffsetNotAvailable):
        replica.fetch(2, 3, last_epoch=0, broker_epoch=restarted.broker_epoch)
        raise AssertionError("it is told something, and nobody knows whether it counts")
    replica.apply(replica.state(brokers=[restarted]))
    assert replica.fetch(2, 3, last_epoch=0, broker_epoch=restarted.broker_epoch) is None


def _leads_with_an_epoch_deleted() -> ReplicaHarness:
    """ISR (1, 2); epoch 0 ended at 3, and the log begins there."""
    replica = ReplicaHarness()
    replica.plain_log.append_as_follower([Entry(0, b"v")] * 3)
    replica.lead(leader_epoch=1, isr=(1, 2))
    replica.plain_log.advance_log_start(Offset(3))
    return replica


def a_request_that_is_delivered_twice_admits_nobody() -> None:
    """Rule 22: the first copy finds the new member fenced, the second finds it back, and behind."""
    cluster = SmallCluster(3)
    cluster.create("t", [1, 2, 3])
    cluster.set_partition(isr=[1, 2])
    wish = alteration(cluster, cluster.partition(), [1, 2, 3])
    replica = _asks_to_add_3()

    cluster.change_broker(3, is_fenced=True)
    replica.answer(*ask_for_isr(cluster, 1, wish))
    withdrawal = PartitionAlteration(withdraw=replica.ask().withdraw)
    withdrawal.MergeFrom(alteration(cluster, cluster.partition(), [1, 2]))
    ask_for_isr(cluster, 1, withdrawal)
    _append_without_3(replica)
    assert replica.high_watermark == 5, "committed without one that may become a member"

    cluster.change_broker(3, is_fenced=False)
    ask_for_isr(cluster, 1, wish)
    assert cluster.partition().isr == (1, 2), "a copy of the request was applied"


def too_few_members_refuse_before_the_append() -> None:
    """Rule 15: what is refused is not written, so that the client can say so."""
    replica = ReplicaHarness()
    leadership = replica.lead(isr=(1,), min_isr=2)
    with suppress(NotEnoughReplicas):
        leadership.append(b"v", acks_all=True)
    assert replica.plain_log.entries == [], "written, with too few who could hold it"


def a_wish_is_kept_while_it_may_be_granted() -> None:
    """Rule 22: an answer that does not say that nothing was done leaves the wish as it is."""
    replica = _asks_to_add_3()
    replica.answer(refusal(InvalidUpdateVersion("a story")))
    _append_without_3(replica)
    assert replica.high_watermark == 5, "committed without one that may be in the ISR by now"


def _asks_to_add_3() -> ReplicaHarness:
    """ISR (1, 2), five records committed; broker 3 has caught up."""
    replica = ReplicaHarness()
    replica.lead(isr=(1, 2))
    replica.append(5)
    replica.fetch(2, 5)
    replica.fetch(3, 5)
    replica.ask()
    return replica


def _append_without_3(replica: ReplicaHarness) -> None:
    replica.append()
    replica.fetch(2, 6)
    # Beyond the time for which one that keeps pace is waited for, wish or no wish.
    replica.clock.advance(2.0)
