"""All drills by name, in the order in which they are listed and told."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from quorate.chaos.drills.control import CONTROL_NAME
from quorate.chaos.drills.stories.contrasts import acks_contrast
from quorate.chaos.drills.stories.disks import (
    disk_full,
    failing_fsync,
    power_loss,
    power_loss_of_one,
    wiped_disk,
)
from quorate.chaos.drills.stories.files import bit_rot, old_copy, swapped_disks
from quorate.chaos.drills.stories.groups import (
    consumer_crash,
    coordinator_kill,
    rebalance_storm,
    zombie_commit,
)
from quorate.chaos.drills.stories.mix import everything_of
from quorate.chaos.drills.stories.network import isolated_leader, slow_follower, split_brain
from quorate.chaos.drills.stories.operations import (
    drain,
    grow_and_shrink,
    reassign_under_fire,
    rolling_restart,
    topic_recreate,
)
from quorate.chaos.drills.stories.outages import last_replica_standing, quorum_loss, unclean_stays_off
from quorate.chaos.drills.stories.processes import (
    controller_kill,
    crash_loop,
    kill_all,
    leader_kill,
    rolling_kill,
    short_pause,
    zombie_leader,
)
from quorate.chaos.drills.stories.quorum_files import journal_rot
from quorate.chaos.drills.story import Story
from quorate.errors import InvalidRequest

__all__ = ["STORIES", "find_story"]

_TOLD_ALONE: Final[Sequence[Story]] = (
    leader_kill,
    rolling_kill,
    controller_kill,
    kill_all,
    crash_loop,
    short_pause,
    zombie_leader,
    quorum_loss,
    last_replica_standing,
    unclean_stays_off,
    isolated_leader,
    split_brain,
    slow_follower,
    disk_full,
    failing_fsync,
    bit_rot,
    journal_rot,
    wiped_disk,
    old_copy,
    swapped_disks,
    power_loss,
    power_loss_of_one,
    rolling_restart,
    drain,
    grow_and_shrink,
    reassign_under_fire,
    topic_recreate,
    acks_contrast,
    consumer_crash,
    coordinator_kill,
    zombie_commit,
    rebalance_storm,
)
STORIES: Final[Sequence[Story]] = (*_TOLD_ALONE, everything_of(_TOLD_ALONE))


def find_story(name: str) -> Story:
    for each in STORIES:
        if each.name == name:
            return each
    # The control is a drill by its name, though it tells no story.
    names = ", ".join([*(each.name for each in STORIES), CONTROL_NAME])
    raise InvalidRequest(f"there is no drill {name}; there are {names}", drill=name)
