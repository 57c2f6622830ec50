"""Mutations that a model finds, and the whole cluster too: the same mistake, seen from outside.

A model knows one part of the system, and its invariants are about that part. That a cluster loses what a
model says it would is what connects the two.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from quorate.chaos.cluster.faults.kinds import Fault
from quorate.chaos.mutations import (
    of_broker_lives,
    of_clients,
    of_elections,
    of_followers,
    of_isr_changes,
    of_leaders,
    of_replicas,
    of_storage,
)
from quorate.chaos.mutations.cluster_hunt import ClusterHunt
from quorate.chaos.mutations.cluster_stories import cluster_story
from quorate.chaos.mutations.emptied_follower_story import an_emptied_follower_does_not_count
from quorate.chaos.mutations.late_fetch_story import a_late_fetch_does_not_count
from quorate.chaos.mutations.mutation import Hunt, Mutation
from quorate.chaos.mutations.shortened_log_story import a_shortened_log_does_not_lead
from quorate.core.config import Durability

__all__ = ["MUTATIONS"]

#: Whoever registers and is not out of the ELR then has to be complete.
_ALL_IN_SYNC: Final = 3

_SYNCING: Final = ClusterHunt((Fault.KILL_BROKER,), durability=Durability.FSYNC)
_GIVEN_UP: Final = ClusterHunt((Fault.RECOVER_PARTITION,), min_insync_replicas=1, is_apart=True)

_SEEN_IN_A_CLUSTER: Final[tuple[tuple[Mutation, Hunt], ...]] = (
    (of_storage.leader_epoch_is_not_saved, ClusterHunt((Fault.KILL_LEADER,))),
    # No power has to fail for them: the disk knows what it has.
    (of_storage.sync_claims_what_was_appended_while_it_ran, _SYNCING),
    (of_storage.names_are_not_synced, _SYNCING),
    (of_followers.follower_never_begins_anew, ClusterHunt((Fault.DELETE_OLD_RECORDS, Fault.LOSE_DISK))),
    # Plans with rot come to it too, one in four: a copy has to be slow to begin.
    (of_leaders.followers_are_carried_over, cluster_story(an_emptied_follower_does_not_count)),
    # What arrives late has to say that the log is complete, and nobody to write until the next start.
    (of_leaders.fetches_of_an_earlier_process_count, cluster_story(a_late_fetch_does_not_count)),
    (of_storage.reads_check_no_checksum, ClusterHunt((Fault.ROT,), is_apart=True)),
    (of_replicas.incomplete_followers_are_admitted, ClusterHunt((Fault.KILL_BROKER,))),
    (
        of_broker_lives.lossy_start_passes_for_a_process_crash,
        ClusterHunt((Fault.LOSE_POWER,), min_insync_replicas=_ALL_IN_SYNC),
    ),
    (
        of_broker_lives.old_copy_of_a_directory_is_believed,
        ClusterHunt((Fault.RESTORE_OLD_COPY,), min_insync_replicas=_ALL_IN_SYNC),
    ),
    (
        of_broker_lives.wiped_disk_is_counted,
        ClusterHunt((Fault.LOSE_DISK,), min_insync_replicas=_ALL_IN_SYNC),
    ),
    # No plan cuts logs, and of a batch that has rotted its broker tells again in a heartbeat.
    (of_broker_lives.damage_is_ignored_at_registration, cluster_story(a_shortened_log_does_not_lead)),
    (of_clients.reader_is_reset_silently, _GIVEN_UP),
    (of_elections.elr_is_not_kept, ClusterHunt((Fault.KILL_ONE_BY_ONE,))),
    (of_elections.elects_the_last_known_leader, ClusterHunt((Fault.KILL_ONE_BY_ONE,))),
    (of_isr_changes.no_broker_epoch_check, ClusterHunt((Fault.KILL_WHO_JOINS,))),
    (of_isr_changes.move_adds_to_the_isr, ClusterHunt((Fault.MOVE_REPLICAS,))),
)

MUTATIONS: Final[tuple[Mutation, ...]] = tuple(
    replace(each, name=f"{each.name}-in-a-cluster", hunt=hunt) for each, hunt in _SEEN_IN_A_CLUSTER
)
