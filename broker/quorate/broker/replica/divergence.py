"""Is a follower's log a prefix of the leader's? (rule 8)

Two logs agree up to an offset if they agree about the leader epoch of the batch before it: within one epoch a
single leader wrote, and along a log epochs never decrease. So a follower says where its log ends and which
epoch wrote its last batch; the leader looks where that epoch ends in its own. Comparing lengths alone, or
trusting the high watermark, is how acknowledged records were lost before leader epochs (KIP-101, KIP-279).

A leader that has deleted all of the follower's last epoch cannot look: it may have ended there, or long
before. All that the logs share is deleted then, and nothing vouches for the rest: a leader that was cut off
may come back with records that were never committed. So the leader names its log start as the end, also to a
log that ends right there, and the follower keeps nothing before it (rule 12).

A log without any record says nothing of itself but where it ends. What was before that was committed, and its
time is over, so it is a prefix of every leader's log, unless a leader was forced that lacked some of it (rule
33). Then others have written since what belongs at these offsets, and it is a prefix only where the leader's
log begins. If it ends further on, it begins anew with the leader.

Whoever may be elected holds all that is committed, as everything is before a leader's start; nobody else has
to vouch for it. It must not become emptier than it is; and with its log would go what it knows of producers
(rule 49).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from quorate.core.ids import LeaderEpoch, Offset
from quorate.errors import OffsetOutOfRange, UnknownLeaderEpoch
from quorate.storage import PartitionLog

__all__ = ["Divergence", "find_divergence"]


class Divergence(NamedTuple):
    """The follower's log is no prefix of the leader's: it has to be cut."""

    #: the leader's largest epoch that is not beyond the follower's last one
    epoch: LeaderEpoch
    #: where that one ends in the leader's log (exclusive)
    end_offset: Offset


def find_divergence(
    leader_log: PartitionLog,
    start_offset: Offset,
    end_offset: Offset,
    last_epoch: LeaderEpoch,
    *,
    is_anything_given_up: bool,
    holds_all_committed: Callable[[], bool],
) -> Divergence | None:
    """For a follower's log from start to end; ``last_epoch`` is that of its last batch, or -1.

    By what the metadata says: ``is_anything_given_up`` in the past of this partition, and whether this
    follower ``holds_all_committed``, which is asked only where its log does not tell.
    """
    log_start_offset = leader_log.log_start_offset
    if end_offset < log_start_offset:
        raise _begins_anew(leader_log, end_offset)
    if last_epoch < 0:
        may_be_of_another_past = is_anything_given_up and end_offset > log_start_offset
        if end_offset > leader_log.log_end_offset or (may_be_of_another_past and not holds_all_committed()):
            raise _begins_anew(leader_log, end_offset)
        return None
    if last_epoch < leader_log.earliest_leader_epoch:
        has_nothing = start_offset == end_offset
        if end_offset == log_start_offset and (has_nothing or holds_all_committed()):
            return None
        return Divergence(last_epoch, log_start_offset)
    end = leader_log.end_of_epoch(last_epoch)
    if end is None:
        raise UnknownLeaderEpoch(
            f"the follower has records of leader epoch {last_epoch}, the leader knows none beyond "
            f"{leader_log.latest_leader_epoch}",
            request_leader_epoch=last_epoch,
            current_leader_epoch=leader_log.latest_leader_epoch,
        )
    if end.epoch < last_epoch or end.end_offset < end_offset:
        return Divergence(end.epoch, end.end_offset)
    return None


def _begins_anew(leader_log: PartitionLog, end_offset: Offset) -> OffsetOutOfRange:
    """Nothing to go on from (rule 12)."""
    log_start_offset, log_end_offset = leader_log.log_start_offset, leader_log.log_end_offset
    return OffsetOutOfRange(
        f"no log that ends at {end_offset} can go on with one from {log_start_offset} to {log_end_offset}",
        offset=end_offset,
        log_start_offset=log_start_offset,
        log_end_offset=log_end_offset,
    )
