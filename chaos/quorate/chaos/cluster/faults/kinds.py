"""Every kind of fault that a plan can name, and what operators do meanwhile, which a plan names as one."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

__all__ = ["OPERATIONS", "UNPLANNED", "Fault"]


class Fault(StrEnum):
    # processes
    KILL_BROKER = "kill_broker"
    KILL_BROKER_AND_RESTART_AT_ONCE = "kill_broker_and_restart_at_once"
    KILL_LEADER = "kill_leader"
    KILL_CONTROLLER = "kill_controller"
    KILL_ALL_BROKERS = "kill_all_brokers"
    KILL_EVERYTHING = "kill_everything"
    KILL_ONE_BY_ONE = "kill_one_by_one"
    KILL_AT_A_DISK_OPERATION = "kill_at_a_disk_operation"
    KILL_WHO_JOINS = "kill_who_joins"
    CRASH_LOOP = "crash_loop"
    PAUSE = "pause"
    PAUSE_LEADER = "pause_leader"
    STOP_CLEANLY = "stop_cleanly"
    # in the middle of an instant
    KILL_AT_A_TURN = "kill_at_a_turn"
    PAUSE_AT_A_TURN = "pause_at_a_turn"
    LOSE_POWER_AT_A_TURN = "lose_power_at_a_turn"
    # power
    LOSE_POWER = "lose_power"
    LOSE_POWER_EVERYWHERE = "lose_power_everywhere"
    # disks
    LOSE_DISK = "lose_disk"
    LOSE_PAGE_CACHE = "lose_page_cache"
    RESTORE_OLD_COPY = "restore_old_copy"
    RESTORE_COPY_OF_THIS_RUN = "restore_copy_of_this_run"
    ROT = "rot"
    ROT_JOURNAL = "rot_journal"
    FILL_DISK = "fill_disk"
    FAIL_SYNC = "fail_sync"
    FAIL_SYNC_OF_CONTROLLER = "fail_sync_of_controller"
    FAIL_SYNC_OF_DIRECTORY = "fail_sync_of_directory"
    FAIL_READ = "fail_read"
    FAIL_WRITE = "fail_write"
    FAIL_RENAME = "fail_rename"
    SLOW_DISK = "slow_disk"
    # network
    CUT_OFF = "cut_off"
    CUT_OFF_FOR_LONG = "cut_off_for_long"
    CUT_ONE_WAY = "cut_one_way"
    CUT_LEADER_FROM_CONTROLLERS = "cut_leader_from_controllers"
    CUT_LEADER_FROM_FOLLOWERS = "cut_leader_from_followers"
    CUT_LEADER_FROM_CLIENTS = "cut_leader_from_clients"
    BRIDGE = "bridge"
    FLAP = "flap"
    LOSE_ANSWERS = "lose_answers"
    REJECT = "reject"
    DELAY = "delay"
    DROP = "drop"
    DUPLICATE = "duplicate"
    # clocks
    JUMP_WALL_CLOCK = "jump_wall_clock"
    DRIFT = "drift"
    # what operators do: no kind of another sort comes after these
    MOVE_REPLICAS = "move_replicas"
    DRAIN = "drain"
    DECOMMISSION = "decommission"
    ELECT_PREFERRED = "elect_preferred"
    TRANSFER_CONTROLLER = "transfer_controller"
    GROW_PARTITIONS = "grow_partitions"
    CHANGE_MIN_ISR = "change_min_isr"
    CHANGE_REPLICATION_FACTOR = "change_replication_factor"
    CHANGE_DURABILITY = "change_durability"
    CHANGE_CONFIG = "change_config"
    RECREATE_TOPIC = "recreate_topic"
    DELETE_OLD_RECORDS = "delete_old_records"
    RECOVER_PARTITION = "recover_partition"


_KINDS: Final = tuple(Fault)
OPERATIONS: Final = _KINDS[_KINDS.index(Fault.MOVE_REPLICAS) :]
UNPLANNED: Final = _KINDS[: _KINDS.index(Fault.MOVE_REPLICAS)]
