"""Private parts of brokers and controllers that metrics and readiness read, and no other file here does.

Public properties would say it better. But these classes are among the sources that simulated seeds vouch
for, and a line that is added there begins that evidence at nothing (ADR 25). So metrics look inside, change
nothing, and know each name in one place; a test that reads every metric of a node notices when one changes.
"""

from __future__ import annotations

from collections.abc import Iterable

from quorate.broker.broker import Broker
from quorate.broker.replica.followers import Follower
from quorate.broker.replica.leadership import Leadership
from quorate.controller.controller import Controller
from quorate.core.ids import BrokerId
from quorate.errors import BrokerFenced
from quorate.metadata.image import MetadataImage
from quorate.metadata.raft.quorum import QuorumStatus

__all__ = [
    "debt_s_of_throttle",
    "followers_of",
    "heard_of_brokers",
    "image_of",
    "silence_s_max_of",
    "status_of_quorum",
]


def image_of(broker: Broker) -> MetadataImage | None:
    """The newest; None: it does not know the metadata yet."""
    try:
        return broker._hosted.image
    except BrokerFenced:
        return None


def debt_s_of_throttle(broker: Broker) -> float:
    """How long it takes to pay off what was fetched under the limit on reassignments."""
    return broker._throttle.wait_s()


def followers_of(leadership: Leadership) -> Iterable[Follower]:
    return leadership._membership.followers


def status_of_quorum(controller: Controller) -> QuorumStatus:
    return controller._quorum.status


def silence_s_max_of(controller: Controller) -> float:
    """A voter that the leader has not heard of for longer counts as unreachable."""
    return controller._quorum._config.timing.election_timeout_max_s


def heard_of_brokers(controller: Controller) -> dict[BrokerId, float]:
    """When, on its clock, of each whose session lives."""
    sessions = controller._liveness.sessions._sessions
    return {broker_id: session.last_heard_s for broker_id, session in sessions.items()}
