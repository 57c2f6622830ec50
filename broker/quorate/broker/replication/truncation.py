"""Where a follower cuts its log, and when it must refuse to.

After a change of leader a follower may hold records that the new leader never had. Two logs agree up to the
point where their leader epochs part, and nowhere is that point but there (rule 8). The high watermark does
not tell: what is above the follower's own may be committed all the same, for it learns of commits late.
Cutting to it is how acknowledged records were lost before there were leader epochs.

So the follower names its last epoch and its end. The leader answers with its own largest epoch that is not
larger, and where that ends. The follower cuts to the smaller of that and its own end of the same epoch, and
names its position again. Each round leaves the end at an older epoch, so there are at most as many rounds as
the follower has epochs, and usually one.

Below its own high watermark a follower holds nothing but committed records, and the leader has all of those:
the controller elects none that lacks any, unless it says so by marking the epoch as unclean. A demand to cut
there without such a mark is proof of a bug, here or there, and obeying would destroy what may be the last
copy (rule 11).
"""

from __future__ import annotations

from quorate.core.ids import Offset
from quorate.storage import PartitionLog
from quorate.storage.leader_epochs import EpochEnd

__all__ = ["truncation_offset"]


def truncation_offset(partition_log: PartitionLog, diverging: EpochEnd) -> Offset:
    """Up to where (exclusive) the log may agree with the leader's; never beyond its end (rule 8)."""
    own = partition_log.end_of_epoch(diverging.epoch)
    own_end = partition_log.log_end_offset if own is None else own.end_offset
    return min(own_end, diverging.end_offset, partition_log.log_end_offset)
