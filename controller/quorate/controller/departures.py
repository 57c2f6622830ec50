"""A broker goes: its partitions are taken from it in pieces, and only then it is on record that it is gone.

A broker may be in 30,000 ISRs. Taken out of all of them in one decision, the event loop would stand still for
a second, and the quorum's leader sends no heartbeats in that time: it would be deposed, and its successor
would begin the same decision. So a batch changes a bounded number of partitions, the event loop turns between
two batches, and whoever asked decides again on the new image until nothing is left.

*First the partitions, then the state.* Each piece is a change like any other: it takes the broker out of some
ISRs as if it were gone. The record about the broker itself (fenced, stopping, registered anew) stands in the
last batch, together with the partitions that were left. So nobody who is fenced or stopping is ever in an
ISR with others (rule 24), and nothing about the progress has to be remembered: what is left is what the image
shows. A controller that takes over in the middle finds a broker that is registered as before and leads less
than before; it hears of it, or does not, and begins again. A leader may ask for the broker to be in an ISR
again meanwhile, for on record it is well; that is refused (``quorate.controller.alter_partition``), or there
would be no end to it.

*Whoever is leaving does not get what others leave.* Two brokers that die at once would pass the same
partitions to and fro without an end, a piece at a time, since each is on record as active while the other's
pieces are decided. So every piece is told who else is on the way out, and elects none of them. For that
moment a partition may have no leader though somebody on record could lead it. If the controller changes just
then, ``quorate.controller.leaderless`` puts it right.

*Leaderships come first*, because clients wait for those; then memberships of ISRs, for which at most writes
wait; then those of ELRs, for which nobody does.

The other order, state first, was rejected. It needs somebody who looks for ISRs with fenced members all the
time, the rules about ISRs would hold only in the end, and for a broker that has lost its records it is wrong:
with its new epoch on record and its old place in an ISR, it would count for what it does not have (rule 30).
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final, NamedTuple

from quorate.controller.elections import Elections, topics_in_order
from quorate.core.ids import BrokerId
from quorate.metadata.image import NO_LEADER, MetadataImage, PartitionImage

__all__ = ["PARTITION_CHANGES_PER_BATCH_MAX", "Piece", "leave_partitions"]

#: About 40 ms to decide and as long to apply, of the 500 that an election takes to begin.
PARTITION_CHANGES_PER_BATCH_MAX: Final = 2_000


class Piece(NamedTuple):
    elections: Elections
    #: whether nothing is left; the record about the broker belongs into this batch then
    is_last: bool


def leave_partitions(
    image: MetadataImage,
    broker_id: BrokerId,
    *,
    leaving: Collection[BrokerId],
    changes_max: int,
    has_lost: Callable[[PartitionImage], bool] | None = None,
) -> Piece:
    """Take the broker out of leaderships and ISRs, as many as fit; where it is the last one it stays.

    ``leaving``: brokers that are on the way out, this one or others.
    ``has_lost``: whether the broker lacks records of a partition: it leaves the ELR too, and the ISR even as
    the last one.
    """
    led: list[PartitionImage] = []
    in_sync: list[PartitionImage] = []
    eligible: list[PartitionImage] = []
    for topic in topics_in_order(image):
        for partition in topic.partitions:
            if partition.leader == broker_id:
                led.append(partition)
            elif broker_id in partition.isr:
                is_alone = partition.leader == NO_LEADER and len(partition.isr) == 1
                if not is_alone or (has_lost is not None and has_lost(partition)):
                    in_sync.append(partition)
            elif has_lost is not None and broker_id in partition.elr and has_lost(partition):
                eligible.append(partition)
    held = [*led, *in_sync, *eligible]
    elections = Elections(image, leaving={broker_id, *leaving})
    for partition in held[:changes_max]:
        remaining = [each for each in partition.isr if each != broker_id]
        lost = (broker_id,) if has_lost is not None and has_lost(partition) else ()
        after = elections.change(partition, isr=remaining, lost=lost)
        assert after is not partition, "what does not change would be left for ever"
    return Piece(elections, is_last=len(held) <= changes_max)
