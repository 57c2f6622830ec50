"""Is a follower's log a prefix of the leader's? (rule 8)

Two logs agree up to an offset if they agree about the leader epoch of the batch before it: within one epoch a
single leader wrote, and along a log epochs never decrease. So a follower says where its log ends and which
epoch wrote its last batch; the leader looks where that epoch ends in its own. Comparing lengths alone, or
trusting the high watermark, is how acknowledged records were lost before leader epochs (KIP-101, KIP-279).

A leader that has deleted all of the follower's last epoch cannot look: it may have ended there, or long
before. All that the logs share is deleted then, and nothing vouches for the rest: a leader that was cut off
may come back with records that were never committed. So the leader names its log start as the end, also to a
log that ends right there, and the follower keeps nothing before it (rule 12).
"""

from __future__ import annotations

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
    leader_log: PartitionLog, start_offset: Offset, end_offset: Offset, last_epoch: LeaderEpoch
) -> Divergence | None:
    """For a follower's log from start to end; ``last_epoch`` is that of its last batch, or -1."""
    log_start_offset, log_end_offset = leader_log.log_start_offset, leader_log.log_end_offset
    is_empty = last_epoch < 0
    if end_offset < log_start_offset or (is_empty and end_offset > log_end_offset):
        # Nothing here to go on from: it starts anew (rule 12).
        raise OffsetOutOfRange(
            f"offset {end_offset} is not within {log_start_offset} and {log_end_offset}",
            offset=end_offset,
            log_start_offset=log_start_offset,
            log_end_offset=log_end_offset,
        )
    if is_empty:
        return None
    if last_epoch < leader_log.earliest_leader_epoch:
        has_nothing = start_offset == end_offset == log_start_offset
        return None if has_nothing else Divergence(last_epoch, log_start_offset)
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
