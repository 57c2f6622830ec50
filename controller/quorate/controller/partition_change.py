"""What has changed between two states of a partition, as a record.

Whoever decides makes the partition as it shall be, and this file says in one place how that is written down:
only the fields that differ, and a partition epoch that is one higher than before, whatever the change was
(rule 2). Where nothing differs there is no record, so the epoch stays and nobody's compare-and-set fails.
"""

from __future__ import annotations

from typing import Final

from quorate.metadata.image import PartitionImage
from quorate.metadata.records import STATE_OF_RECOVERY
from quorate.v1.metadata_pb2 import MetadataRecord

__all__ = ["change_record"]

#: fields of the same name and meaning in the image and in the record
_LISTS: Final = ("replicas", "isr", "elr", "last_known_elr", "adding_replicas", "removing_replicas")


def change_record(before: PartitionImage, after: PartitionImage) -> MetadataRecord:
    """The record that makes ``after`` out of ``before``."""
    assert after.topic_id == before.topic_id
    assert after.partition == before.partition
    assert after.partition_epoch == before.partition_epoch + 1
    assert after.leader_epoch >= before.leader_epoch
    record = MetadataRecord()
    # Filled in place: a failover makes ten thousands of these, and arguments cost three times as much.
    change = record.partition_change
    change.topic_id = after.topic_id
    change.partition = after.partition
    change.partition_epoch = after.partition_epoch
    for name in _LISTS:
        members = getattr(after, name)
        if members != getattr(before, name):
            # Present also where it is empty now: absent would mean "as it was".
            changed = getattr(change, name)
            changed.SetInParent()
            changed.broker_ids.extend(members)
    if after.leader != before.leader or after.leader_epoch != before.leader_epoch:
        change.leader = after.leader
        change.leader_epoch = after.leader_epoch
    if after.recovery is not before.recovery:
        change.recovery_state = STATE_OF_RECOVERY[after.recovery]
    if after.unclean_leader_epochs != before.unclean_leader_epochs:
        change.is_unclean = True
    if after.is_synced is not before.is_synced:
        change.is_synced = after.is_synced
    return record
