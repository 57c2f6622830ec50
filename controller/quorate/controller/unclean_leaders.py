"""Which partitions may lack acknowledged records under the leader that they have now."""

from __future__ import annotations

from quorate.metadata.image import PartitionImage, Recovery

__all__ = ["may_lack_records"]


def may_lack_records(partition: PartitionImage) -> bool:
    """After the next clean election there is nothing left to be done about it."""
    if partition.recovery is Recovery.RECOVERING:
        return True
    return partition.leader_epoch in partition.unclean_leader_epochs
