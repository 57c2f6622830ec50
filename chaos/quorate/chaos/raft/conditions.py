"""What a seed's world is like: how large, how fast, how lossy, and which faults it knows.

Every seed draws its own mix (swarm testing). A world that has a little of everything is always about equally
bad; one that has, say, no crashes but a terrible network gets into corners that the average never sees.
"""

from __future__ import annotations

import enum
import random
from dataclasses import dataclass, replace
from typing import Final, get_args

from quorate.metadata.raft.limits import Limits
from quorate.metadata.raft.messages import AppendRequest, CatchUpResponse, Message
from quorate.metadata.raft.ready import Timing

__all__ = ["WEIGHTS", "Conditions", "FaultKind"]


class FaultKind(enum.Enum):
    CRASH = "crash"
    CRASH_SEVERAL = "crash several"
    AMBUSH = "ambush"
    PAUSE = "pause"
    PARTITION = "partition"
    FLAP = "flapping link"
    DAMAGE_TAIL = "damaged tail"
    WIPE = "wiped disk"
    CLOCK = "clock drift"
    SLOW_DISK = "slow disk"
    FALSE_ALARM = "false alarm"
    # no faults, but just as likely to come at a bad moment
    SNAPSHOT = "snapshot"
    TRANSFER = "transfer"
    VOTER_CHANGE = "voter change"


#: how often each kind comes, where a seed has it at all
WEIGHTS: Final = {
    FaultKind.CRASH: 6,
    FaultKind.CRASH_SEVERAL: 2,
    FaultKind.AMBUSH: 12,
    FaultKind.PAUSE: 4,
    FaultKind.PARTITION: 14,
    FaultKind.FLAP: 3,
    FaultKind.DAMAGE_TAIL: 4,
    FaultKind.WIPE: 2,
    FaultKind.CLOCK: 2,
    FaultKind.SLOW_DISK: 3,
    FaultKind.FALSE_ALARM: 3,
    FaultKind.SNAPSHOT: 4,
    FaultKind.TRANSFER: 4,
    FaultKind.VOTER_CHANGE: 6,
}


@dataclass(frozen=True, slots=True)
class Conditions:
    founders: int
    #: nodes that are no voters at first
    spares: int
    timing: Timing
    limits: Limits
    #: how long there are faults
    troubled_s: float
    # the network
    delay_min_s: float
    delay_jitter_s: float
    #: a snapshot is large: it takes up to so much longer
    snapshot_transfer_s: float
    #: as a connection has it; else messages overtake each other
    is_fifo: bool
    drop_probability: float
    duplicate_probability: float
    #: of a message that arrives when nobody expects it any more
    straggle_probability: float
    #: messages of this kind straggle more often than not
    unlucky: type[Message] | None
    #: that a partition keeps what it stops, and delivers it afterwards
    clog_probability: float
    # the disks
    sync_s: float
    #: a node takes a snapshot after so many applied entries; 0: only when it is told to
    snapshot_every: int
    #: that a disk is damaged again right after its voter has recovered
    rot_probability: float
    # the clocks: a voter's runs faster or slower by at most this share
    drift_max: float
    # the clients
    clients: int
    think_s: float
    request_timeout_s: float
    read_share: float
    #: per second, while there is a storm
    fault_rate: float
    #: that a storm is over after a fault
    calm_probability: float
    #: one that is here twice comes twice as often
    fault_kinds: tuple[FaultKind, ...]

    @classmethod
    def draw(cls, random: random.Random) -> Conditions:
        """A mix, or one of the corners that a mix would hardly ever get into."""
        mix, luck = cls._draw_mix(random), random.random()
        if luck < 0.12:
            return mix.with_rotten_disks()
        if luck < 0.24:
            return mix.with_late_entries_and_snapshots()
        if luck < 0.34:
            return mix.with_contested_leadership()
        return mix

    @classmethod
    def _draw_mix(cls, random: random.Random) -> Conditions:
        kinds = [kind for kind in FaultKind if random.random() < 0.7] or [FaultKind.CRASH]
        is_fifo = random.random() < 0.3
        is_lossy = random.random() < 0.6
        return cls(
            founders=random.choices((1, 2, 3, 4, 5), weights=(3, 2, 55, 5, 35))[0],
            spares=random.choice((0, 1, 1, 2)),
            timing=Timing(
                election_timeout_min_s=0.15,
                election_timeout_max_s=random.choice((0.2, 0.3, 0.45)),
                heartbeat_s=random.choice((0.05, 0.07)),
            ),
            limits=_draw_limits(random),
            troubled_s=random.uniform(3.0, 6.0),
            delay_min_s=random.choice((0.0005, 0.002, 0.005)),
            delay_jitter_s=random.choice((0.0005, 0.005, 0.02, 0.08)),
            snapshot_transfer_s=random.choice((0.0, 0.1, 0.5)),
            is_fifo=is_fifo,
            drop_probability=random.choice((0.01, 0.05, 0.15)) if is_lossy else 0.0,
            duplicate_probability=0.0 if is_fifo else random.choice((0.0, 0.02, 0.1)),
            straggle_probability=0.0 if is_fifo else random.choice((0.0, 0.02, 0.05)),
            unlucky=None if is_fifo else random.choice((None, None, None, *get_args(Message))),
            clog_probability=random.choice((0.0, 0.5, 0.9)),
            sync_s=random.choice((0.001, 0.005, 0.03)),
            snapshot_every=random.choice((0, 3, 6, 25)),
            rot_probability=0.4,
            drift_max=random.choice((0.0, 0.1, 0.3)),
            clients=random.randint(1, 5),
            think_s=random.choice((0.03, 0.1, 0.3)),
            request_timeout_s=random.choice((0.2, 0.6)),
            read_share=random.choice((0.1, 0.3, 0.5)),
            fault_rate=random.choice((6.0, 10.0, 20.0)),
            calm_probability=random.choice((0.05, 0.15, 0.3)),
            fault_kinds=tuple(kinds),
        )

    def with_rotten_disks(self) -> Conditions:
        """Damage upon damage, while what was said about the first is still on its way."""
        return replace(
            self,
            is_fifo=False,
            unlucky=CatchUpResponse,
            rot_probability=1.0,
            fault_kinds=(*self.fault_kinds, FaultKind.DAMAGE_TAIL),
        )

    def with_contested_leadership(self) -> Conditions:
        """Another leader is elected, and answers, before the one that is cut off gives up; and many look."""
        return replace(
            self,
            timing=replace(self.timing, election_timeout_max_s=0.45),
            delay_min_s=0.0005,
            delay_jitter_s=0.0005,
            sync_s=0.001,
            drift_max=0.3,
            clients=5,
            think_s=0.05,
            fault_kinds=(*self.fault_kinds, FaultKind.PARTITION, FaultKind.PARTITION),
        )

    def with_late_entries_and_snapshots(self) -> Conditions:
        """Entries arrive while the snapshot that was sent in their place is still on its way."""
        return replace(
            self,
            limits=replace(
                self.limits, append_bytes_max=1, inflight_max=16, pipelined_entries_min=1, entries_kept=0
            ),
            is_fifo=False,
            duplicate_probability=0.1,
            unlucky=AppendRequest,
            snapshot_every=3,
            snapshot_transfer_s=0.5,
            think_s=0.1,
        )


def _draw_limits(random: random.Random) -> Limits:
    """Small, so that batches end, pipelines fill up, and snapshots are needed."""
    return Limits(
        append_bytes_max=random.choice((1, 150, 400, 4000)),
        inflight_max=random.choice((1, 2, 4, 16)),
        pipelined_entries_min=random.choice((1, 1, 2, 64)),
        entries_kept=random.choice((0, 0, 0, 5)),
        uncommitted_count_max=random.choice((8, 30, 100)),
    )
