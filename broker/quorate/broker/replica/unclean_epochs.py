"""Whether a leader that was forced may lack what is committed here (rules 11 and 33)."""

from __future__ import annotations

from collections.abc import Collection

from quorate.core.ids import LeaderEpoch, Offset
from quorate.storage import PartitionLog

__all__ = ["crosses_unclean_epoch"]


def crosses_unclean_epoch(
    partition_log: PartitionLog,
    *,
    high_watermark: Offset,
    leader_epoch: LeaderEpoch,
    unclean_leader_epochs: Collection[LeaderEpoch],
) -> bool:
    """Whether a leader may lack what is below the high watermark (exclusive), by what metadata says.

    Only an unclean election after the last of those records was written can have lost it. One before that
    explains nothing: the record came later, and was committed under a leader that had it.
    """
    committed_in = partition_log.leader_epoch_at(Offset(high_watermark - 1))
    return any(committed_in < unclean <= leader_epoch for unclean in unclean_leader_epochs)
