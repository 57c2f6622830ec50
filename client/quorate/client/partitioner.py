"""Which partition a record goes to.

Records with a key go where Kafka's clients would put them, so that mixed clients agree. Records without one
stay on a partition until about a batch's worth of bytes is there, then go on to another: spreading them one
by one would make many small batches of a few large ones.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from quorate.core.records import murmur2, partition_for_key

__all__ = ["StickyChoice", "murmur2", "partition_for_key"]


class StickyChoice:
    """Where records without a key go now."""

    __slots__ = ("_rng", "batch_bytes", "partition")

    def __init__(self, rng: random.Random, batch_bytes: int) -> None:
        self._rng = rng
        #: after about so many it is time to move on
        self.batch_bytes = batch_bytes
        self.partition = -1

    def move_on(self, queued: Sequence[int], candidates: Sequence[int]) -> int:
        """To another partition. Of two at random the one with less queued: a slow leader gets less.

        ``candidates``: partitions that have a leader; ``queued``: batches that wait, for each partition.
        """
        others = [partition for partition in candidates if partition != self.partition] or candidates
        first, second = self._rng.choice(others), self._rng.choice(others)
        self.partition = first if queued[first] <= queued[second] else second
        return self.partition
