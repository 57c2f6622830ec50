"""What faults leave behind: a run in which they did nothing would show nothing.

The counters are of the simulator itself, not of what nodes say. A fault whose sign must be there, whatever
else happens, has it in ``SIGNS``; that the others work shows over several seeds, in the tests.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from quorate.chaos.cluster.cluster import SimCluster
from quorate.chaos.cluster.faults.kinds import Fault
from quorate.chaos.history.history import History
from quorate.core.ids import ReplicaKey
from quorate.metadata.image import PartitionImage

__all__ = ["SIGNS", "SignsInMetadata", "expected_signs", "signs_of", "signs_of_group"]

_RESTARTS: Final = "restarts"
_CONTROLLER_RESTARTS: Final = "controller_restarts"
_POWER_LOSSES: Final = "power_losses"
_PAGE_CACHE_LOSSES: Final = "page_cache_losses"
_DAMAGES: Final = "damages"
_ROTTEN: Final = "rotten_files"
_LEADERS_MOVED: Final = "leaders_moved"
_LOG_STARTS: Final = "log_starts_moved"
_UNCLEAN_ELECTIONS: Final = "unclean_elections"

#: by the fault that was inflicted: the counter that must not be 0 then
SIGNS: Final[Mapping[Fault, str]] = {
    **dict.fromkeys(
        (
            Fault.KILL_BROKER,
            Fault.KILL_BROKER_AND_RESTART_AT_ONCE,
            Fault.KILL_LEADER,
            Fault.KILL_ALL_BROKERS,
            Fault.KILL_EVERYTHING,
            Fault.KILL_ONE_BY_ONE,
            Fault.KILL_AT_A_DISK_OPERATION,
            Fault.KILL_AT_A_TURN,
            Fault.KILL_WHO_JOINS,
            Fault.CRASH_LOOP,
            Fault.STOP_CLEANLY,
        ),
        _RESTARTS,
    ),
    Fault.KILL_CONTROLLER: _CONTROLLER_RESTARTS,
    Fault.FAIL_SYNC: _RESTARTS,
    Fault.FAIL_SYNC_OF_CONTROLLER: _CONTROLLER_RESTARTS,
    Fault.FAIL_SYNC_OF_DIRECTORY: _RESTARTS,
    Fault.FAIL_READ: _RESTARTS,
    Fault.FAIL_WRITE: _RESTARTS,
    Fault.FAIL_RENAME: _RESTARTS,
    Fault.LOSE_POWER: _POWER_LOSSES,
    Fault.LOSE_POWER_AT_A_TURN: _POWER_LOSSES,
    Fault.LOSE_POWER_EVERYWHERE: _POWER_LOSSES,
    Fault.LOSE_PAGE_CACHE: _PAGE_CACHE_LOSSES,
    Fault.LOSE_DISK: _DAMAGES,
    Fault.RESTORE_OLD_COPY: _DAMAGES,
    Fault.RESTORE_COPY_OF_THIS_RUN: _DAMAGES,
    Fault.ROT: _ROTTEN,
    Fault.ROT_JOURNAL: _ROTTEN,
    Fault.ELECT_PREFERRED: _LEADERS_MOVED,
    Fault.DELETE_OLD_RECORDS: _LOG_STARTS,
    Fault.RECOVER_PARTITION: _UNCLEAN_ELECTIONS,
}


def expected_signs(inflicted: Iterable[Fault]) -> tuple[str, ...]:
    """Each once."""
    return tuple(dict.fromkeys(SIGNS[kind] for kind in inflicted if kind in SIGNS))


class SignsInMetadata:
    """What operators wanted, as the committed metadata has it."""

    def __init__(self) -> None:
        self.leaders_moved = 0
        self.unclean_elections = 0
        self._before: dict[ReplicaKey, PartitionImage] = {}

    def saw(self, partition: PartitionImage) -> None:
        """Every state of every partition, in order."""
        key = ReplicaKey(partition.topic_id, partition.partition)
        before = self._before.get(key)
        self._before[key] = partition
        # A leader that is still in sync was not in need of a successor.
        if before is not None and before.leader != partition.leader and before.leader in partition.isr:
            self.leaders_moved += 1
        if before is not None:
            known = before.unclean_leader_epochs
            self.unclean_elections += len(set(partition.unclean_leader_epochs).difference(known))


def signs_of(cluster: SimCluster, metadata: SignsInMetadata, examined: Mapping[str, int]) -> dict[str, int]:
    """``examined``: the observer's."""
    machines, network = list(cluster.machines.values()), cluster.network
    disks = [machine.disk for machine in machines]
    return {
        _RESTARTS: sum(machine.starts - 1 for machine in machines),
        _CONTROLLER_RESTARTS: sum(machine.starts - 1 for machine in cluster.controllers),
        _POWER_LOSSES: sum(disk.power_losses for disk in disks),
        _PAGE_CACHE_LOSSES: sum(disk.page_cache_losses for disk in disks),
        "files_set_back": sum(disk.files_set_back for disk in disks),
        _DAMAGES: sum(disk.damages for disk in disks),
        _LEADERS_MOVED: metadata.leaders_moved,
        _UNCLEAN_ELECTIONS: metadata.unclean_elections,
        _LOG_STARTS: examined["log starts moved"],
        "compactions": examined["logs compacted"],
        "compactions_of_offsets": examined["logs of offsets compacted"],
        "tombstones_removed": examined["tombstones removed"],
        "compacted_logs_copied_anew": examined["compacted logs copied anew"],
        _ROTTEN: sum(len(disk.rotten) for disk in disks),
        "frames_dropped": network.frames_dropped,
        "frames_held": network.frames_held,
        "requests_doubled": network.requests_doubled,
        "deaths_outlived": network.deaths_outlived,
    }


def signs_of_group(history: History, *, offsets_told: int) -> dict[str, int]:
    """``offsets_told``: how often a coordinator has told an offset that could have been wrong."""
    return {
        "group_partitions_given": sum(each.group is not None for each in history.assignments),
        "group_commits": sum(each.is_acknowledged for each in history.commits),
        "group_offsets_told": offsets_told,
    }
