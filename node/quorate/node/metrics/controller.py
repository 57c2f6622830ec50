"""The controller of a node in numbers: what it is in the quorum, and when it last heard from each broker."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from quorate.controller.controller import Controller
from quorate.core.clock import Clock
from quorate.core.metrics import Metric, MetricKind, Reading, Sample
from quorate.metadata.raft.progress import FollowerProgress, ProgressState
from quorate.metadata.raft.quorum import QuorumStatus
from quorate.metadata.raft.ready import Role
from quorate.node.metrics.insides import heard_of_brokers, silence_s_max_of, status_of_quorum
from quorate.node.node import Node

__all__ = ["METRICS", "ControllerMetrics", "unsettled_voters"]

ACTIVE: Final = Metric(
    "quorate_controller_active",
    MetricKind.GAUGE,
    "1 while this node is the active controller, as far as it knows, else 0. Not there without that role.",
)
STATE: Final = Metric(
    "quorate_controller_state_info",
    MetricKind.INFO,
    "What this controller is in the quorum: leader, follower, pre-candidate, candidate, or waiting for the "
    "others for the first time.",
    ("state",),
)
HEARS_LEADER: Final = Metric(
    "quorate_controller_hears_leader",
    MetricKind.GAUGE,
    "1 while this controller leads the quorum or hears from who does, else 0.",
)
TERM: Final = Metric(
    "quorate_controller_term",
    MetricKind.GAUGE,
    "The quorum's term. It grows when there is an election: seldom.",
)
COMMIT: Final = Metric(
    "quorate_controller_commit_index",
    MetricKind.GAUGE,
    "Up to where this controller knows the metadata to be committed.",
)
VOTERS: Final = Metric(
    "quorate_controller_voters",
    MetricKind.GAUGE,
    "Voters of the quorum. Told by the active controller alone.",
)
VOTERS_UNSETTLED: Final = Metric(
    "quorate_controller_voters_unsettled",
    MetricKind.GAUGE,
    "Voters that neither lead nor follow: not heard of, recovering, catching up from a snapshot, or refused "
    "because they have less than they acknowledged. Told by the active controller alone.",
)
UNCOMMITTED: Final = Metric(
    "quorate_controller_uncommitted_entries",
    MetricKind.GAUGE,
    "Entries of the metadata that this controller has and does not know to be committed.",
)
COMMIT_SECONDS: Final = Metric(
    "quorate_controller_commit_seconds",
    MetricKind.HISTOGRAM,
    "How long changes of the metadata took from their decision on the active controller until a majority of "
    "the voters had them on disk. Told by who decided them.",
)
HEARTBEAT_AGE: Final = Metric(
    "quorate_controller_heartbeat_age_seconds",
    MetricKind.GAUGE,
    "How long ago the active controller heard from each broker whose session lives.",
    ("broker_id",),
)

METRICS: Final = (
    ACTIVE, STATE, HEARS_LEADER, TERM, COMMIT, VOTERS, VOTERS_UNSETTLED, UNCOMMITTED, COMMIT_SECONDS,
    HEARTBEAT_AGE,
)  # fmt: skip


class ControllerMetrics:
    def __init__(self, node: Node, clock: Clock) -> None:
        self._node = node
        self._clock = clock

    async def look(self) -> None:
        """Nothing has to be gathered."""

    def read(self) -> Iterator[Reading]:
        # It is gone when the node stops, before the node is.
        controller = self._node.controller
        if controller is not None:
            yield Reading(ACTIVE, [Sample((), controller.is_active)])
            yield Reading(HEARS_LEADER, [Sample((), controller.hears_leader)])
            yield from _quorum(controller)
            yield from self._voters(controller)
            yield Reading(COMMIT_SECONDS, controller.commit_seconds.samples(()))
            yield Reading(HEARTBEAT_AGE, self._heartbeat_ages(controller))

    def _voters(self, controller: Controller) -> Iterator[Reading]:
        status = status_of_quorum(controller)
        if not controller.is_active or status.role is not Role.LEADER:
            return
        unsettled = unsettled_voters(
            status, now=self._clock.monotonic(), silence_s_max=silence_s_max_of(controller)
        )
        yield Reading(VOTERS, [Sample((), len(status.voters))])
        yield Reading(VOTERS_UNSETTLED, [Sample((), unsettled)])

    def _heartbeat_ages(self, controller: Controller) -> list[Sample]:
        if not controller.is_active:
            return []
        now = self._clock.monotonic()
        return [
            Sample((str(broker_id),), max(0.0, now - heard_at))
            for broker_id, heard_at in sorted(heard_of_brokers(controller).items())
        ]


def unsettled_voters(status: QuorumStatus, *, now: float, silence_s_max: float) -> int:
    """As `quorate cluster quorum` tells it, without asking anybody: what the leader has heard."""
    return sum(
        not _is_settled(status.progress.get(voter.key), now=now, silence_s_max=silence_s_max)
        for voter in status.voters
        if voter.key != status.key
    )


def _is_settled(progress: FollowerProgress | None, *, now: float, silence_s_max: float) -> bool:
    return (
        progress is not None
        and now - progress.last_heard <= silence_s_max
        and progress.is_counted
        and progress.state is not ProgressState.SNAPSHOT
    )


def _quorum(controller: Controller) -> Iterator[Reading]:
    status = status_of_quorum(controller)
    state = status.role.value if status.is_running else "waiting"
    yield Reading(STATE, [Sample((state,), 1)])
    yield Reading(TERM, [Sample((), status.term)])
    yield Reading(COMMIT, [Sample((), status.commit_index)])
    yield Reading(UNCOMMITTED, [Sample((), status.last_index - status.commit_index)])
