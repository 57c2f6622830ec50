"""What clients are told when this broker cannot do what they asked.

An error inside the broker says what is wrong here. A client needs to know what to do: ask the broker that
leads, or try again once there is one. So the leader is named with its address, and a replica that is out of
order is one that does not lead: another will.
"""

from __future__ import annotations

from quorate.broker.hosted import Hosted
from quorate.broker.replica.log_trouble import is_log_trouble
from quorate.core.ids import BrokerId
from quorate.errors import NotLeaderOrFollower, QuorateError, Unavailable

__all__ = ["appended_while_fenced", "for_client"]


def for_client(error: QuorateError, hosted: Hosted) -> QuorateError:
    if is_log_trouble(error):
        # Never served (rule 44), and not for the client to mend.
        return NotLeaderOrFollower(f"this replica cannot be used: {error.message}", cause=error.code)
    if isinstance(error, NotLeaderOrFollower):
        return _with_address(error, hosted)
    return error


def _with_address(error: NotLeaderOrFollower, hosted: Hosted) -> NotLeaderOrFollower:
    """Saves the client a question: it knows where to go on from the answer alone."""
    leader = error.facts.get("leader")
    if not isinstance(leader, int) or "leader_address" in error.facts:
        return error
    broker = hosted.image.brokers.get(BrokerId(leader))
    if broker is None:
        return error
    return NotLeaderOrFollower(error.message, **error.facts, leader_address=broker.address)


def appended_while_fenced() -> Unavailable:
    """For acks of the leader alone: another leader may have been elected, without the record (rule 37)."""
    return Unavailable(
        "appended, but this broker has lost touch with the active controller: whether it stays is unknown"
    )
