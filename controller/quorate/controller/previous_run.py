"""What a broker's new process may be trusted to have, judged by how the one before it ended.

A replica counts (as a member of an ISR or an ELR) because it has said that it stored records. Rule 30 asks,
for each start, whether that is still true:

- *Clean*: the last process flushed everything and left a marker. All is there.
- *Process crash*: no marker, but the kernel is the same and every log is intact. Appended records were in
  the page cache, which outlives a process. All is there. Without this case, ``kill -9`` of all brokers at
  once would leave every partition offline for ever.
- *Lossy*: the machine went down, a disk has failed, or the page cache is not the one that was written to.
  What was synced is there; what was only in the page cache may be gone. Replicas of partitions that are
  synced (``durability=fsync``, rule 45) have on the device all that they ever answered for.
- *Unknown directory*: another directory than the registered one (a wiped or replaced disk, rule 32), or
  the same in a state that the last run did not leave: a copy that was restored from a backup. Nothing can
  be relied on, not even what was once synced.

Whether the directory is in the state that the last run left, its notes tell first. A process notes its epoch
after registration and before it asks to be unfenced, so whoever was unfenced later than the copy was made
has another epoch. A process that dies between its registration and its note was never unfenced, and has
answered for nothing; but it is the last one that the controller knows. It would be taken for a stranger,
and if it was the last one in an ISR, the partition would be offline for ever because of a crash. So each
process notes its incarnation *before* it registers, and the next one names those that came no further.

That the kernel is the same does not mean that the page cache is: a volume can go and come back without a
reboot, and leave behind what was not written to it. Nothing on such a disk tells of it. But each heartbeat
carries a number that the broker has written beside its logs, without a sync
(``quorate.broker.directory.cache_witness``). A process that finds a lower one than was heard, or none, does
not find what the one before it appended either. The number was synced before the marker of a clean stop, so
that one is no excuse.

Which number was heard last, the active controller knows. It puts it on record with whatever else it has to
say about the broker, above all that it is fenced. A controller that has begun since then knows what is on
record, which may be older. It accuses nobody by what it does not know: otherwise ``kill -9`` of all nodes at
once would leave every partition offline.

A copy that was made *during* the last run and put back before the next has notes of the right epoch, and a
lower number of the cache witness proves no more than a lost page cache: what was synced would count. So there
is another number, which is synced before it is told (``quorate.broker.directory.device_witness``). What the
directory is known to have had on its device no crash and no loss of power takes away: a lower one is found in
an older state of it only. That is looked at before anything else. 0 is below all that was ever told: nothing
was found. A version of the broker that has no such number sends none, and nothing follows from that. After
such a start the number on record is the one that was found: it is the directory's state from then on.

That number is told every ten seconds or so. What this cannot tell apart is a copy that holds the last one
which is known: of that age, with a heartbeat and a record of the controller, or younger.

The evidence is the broker's word; the epoch, the directory and the numbers it is compared with are the
controller's own.
"""

from __future__ import annotations

from enum import StrEnum

from quorate.metadata.image import BrokerImage, PartitionImage
from quorate.v1.controller_pb2 import RegisterBrokerRequest

__all__ = ["StartKind", "judge_start", "keeps_replica"]


class StartKind(StrEnum):
    CLEAN = "clean"
    PROCESS_CRASH = "process_crash"
    LOSSY = "lossy"
    UNKNOWN_DIRECTORY = "unknown_directory"


def judge_start(registered: BrokerImage | None, request: RegisterBrokerRequest) -> StartKind:
    """``registered``: the broker's last registration, with the highest numbers that were heard of it."""
    if registered is None or request.directory_id != registered.directory_id:
        return StartKind.UNKNOWN_DIRECTORY
    run = request.previous_run
    # First of all: neither marker nor boot nor what was synced speaks for an older state of the directory.
    if run.HasField("device_witness") and run.device_witness < registered.device_witness:
        return StartKind.UNKNOWN_DIRECTORY
    is_last_run = run.broker_epoch == registered.broker_epoch
    if not is_last_run and registered.incarnation_id not in run.unnoted_incarnation_ids:
        return StartKind.UNKNOWN_DIRECTORY
    known = registered.cache_witness
    found = run.cache_witness if run.HasField("cache_witness") else None
    if known is not None and (found is None or found < known):
        return StartKind.LOSSY
    if run.is_clean:
        return StartKind.CLEAN
    if run.is_same_boot and run.is_intact:
        return StartKind.PROCESS_CRASH
    return StartKind.LOSSY


def keeps_replica(start: StartKind, partition: PartitionImage) -> bool:
    """Whether the broker's replica of this partition, if it is not damaged, counts after such a start."""
    if start is StartKind.LOSSY:
        return partition.is_synced
    return start is not StartKind.UNKNOWN_DIRECTORY
