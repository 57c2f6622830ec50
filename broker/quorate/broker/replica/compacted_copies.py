"""What a follower has to know before it copies a log that is compacted (rule 48).

What compaction has removed is not sent any more, and nobody misses it: something newer of the same key comes
further on. Two things are missed by who copies only a part of it.

*Deletions.* A tombstone goes when it has been alone for a while. A follower that was away for longer may hold
a record that it deleted, and would keep it for ever. So one that ends before the last tombstone that is gone
drops its log, and begins anew. What it gets then lacks all that these tombstones deleted, and the tombstones:
it notes that, goes on from wherever it is when it is interrupted, and asks the same of its own followers when
it leads one day.

*What replaces.* A follower that copies lacks records because of newer ones that it has not come to. If an
operator has a replica lead that does not have those either (rule 33), both are missing at this one alone. So
it notes up to where they lie, as whoever compacts does: a log that is cut before that is dropped, and one
that was to go on with a leader that may lack some of them begins anew.

Whoever is in sync, or may be elected, ends behind all of this: nothing is compacted that is not committed.
So such a log is cut like any other, and keeps what is before the cut, whatever is noted there.

A copy whose note has rotted does not know up to where it lacks something: *unknown* is beyond every offset,
and is told and noted like one. A leader that holds everything ends it (``Partition``): what it has missed is
before its own end. One in whose past an operator has given something up does not: what replaced a record may
have been beyond its end, and then a log that is cut where the two part has to go.

Rejected: to keep tombstones until every replica has them. A broker that is gone for good would keep them for
ever; and a replica that is copied anew does not need them.
"""

from __future__ import annotations

from quorate.core.ids import Offset
from quorate.storage import Compacted

__all__ = ["has_to_begin_anew", "has_to_hear"]


def has_to_hear(leader: Compacted, *, end_offset: Offset, known: Compacted) -> bool:
    """Whether a follower that ends there, and has heard of what is ``known``, has to hear more first."""
    if end_offset >= leader.superseded_below:
        # Nothing is compacted there.
        return False
    return known.superseded_below < leader.superseded_below or has_to_begin_anew(
        leader, end_offset=end_offset, known=known
    )


def has_to_begin_anew(leader: Compacted, *, end_offset: Offset, known: Compacted) -> bool:
    """It may hold what was deleted by a tombstone that it will not see."""
    return max(end_offset, known.tombstones_removed_below) < leader.tombstones_removed_below
