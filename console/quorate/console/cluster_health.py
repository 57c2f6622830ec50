"""What is wrong with a cluster, as ``quorate cluster health`` tells it.

The metadata counts partitions that lack a leader or replicas. Two things it does not know well enough:

- Whether a leader can write. One whose disk is full leads, serves and is in sync with its followers, so each
  leader is asked.
- Whether a replica that is not in sync is one that was lost, or one that a move is just adding.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from quorate.console.described_topics import describe_topics
from quorate.console.headroom import headroom_warning
from quorate.console.health_steps import next_steps
from quorate.console.topic_documents import partition_documents
from quorate.errors import ERRORS_BY_CODE, DiskFull, LogBusy, LogClosed, StorageError
from quorate.v1 import admin_pb2

if TYPE_CHECKING:
    from quorate.client.impatient_admin import ImpatientAdmin

__all__ = ["Health", "health_of", "look_at_cluster", "moves_sentence"]

#: So many partitions are named at most: the counts say the rest.
_PARTITIONS_NAMED_MAX: Final = 20
#: of those that a sentence is about
_NAMED_MAX: Final = 3

_STATES_BY_GRAVITY: Final = ("offline", "under min.insync.replicas", "recovering", "under-replicated")


@dataclass(slots=True)
class Health:
    #: what is wrong now: data or changes cannot be served, or one more failure would do that
    problems: list[str] = field(default_factory=list)
    #: what should not stay like this
    warnings: list[str] = field(default_factory=list)
    #: about the problems, the first thing first
    next_steps: list[str] = field(default_factory=list)
    #: partitions that the problems are about, the worst first: their documents with a ``topic``
    partitions: list[dict[str, Any]] = field(default_factory=list)

    @property
    def what_to_do(self) -> str | None:
        """The first step; None: there is none that is known."""
        return self.next_steps[0] if self.next_steps else None


async def look_at_cluster(connection: ImpatientAdmin) -> Health:
    cluster = await connection.describe_cluster()
    quorum = await connection.describe_quorum()
    moves = await connection.list_reassignments() if cluster.reassigning_partition_count else []
    health = health_of(cluster, quorum, moves)
    if not cluster.brokers:
        # Not in `health_of`: controllers may be restarted one by one before there are brokers.
        health.problems.append("no broker is registered: nobody could take a record, or serve one")
    if cluster.partition_count:
        described = await describe_topics(connection)
        if described.left_out:
            health.warnings.append(f"{described.left_out}; a full disk or damage is not seen in the others")
        documents = [
            {"topic": topic.name, **each} for topic in described.topics for each in partition_documents(topic)
        ]
        ill = _ill(documents)
        _look_at_errors(ill, health)
        _look_at_recovered(cluster, documents, health)
        if warning := headroom_warning(described.topics):
            health.warnings.append(warning)
        health.partitions = [each for each in ill if not _is_unanswered(each)][:_PARTITIONS_NAMED_MAX]
    health.next_steps = next_steps(cluster, quorum, health.partitions)
    return health


def _ill(documents: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The worst first."""
    return sorted((each for each in documents if _gravity(each) < len(_STATES_BY_GRAVITY)), key=_gravity)


def _look_at_recovered(
    cluster: admin_pb2.DescribeClusterResponse, documents: Iterable[dict[str, Any]], health: Health
) -> None:
    """A warning: what is lost is lost, and all that was acknowledged since is as safe as anywhere else.

    A problem would hold up every restart, and a new leader is the only end that it has.
    """
    count = cluster.recovering_partition_count
    if not count:
        return
    found = [each for each in documents if each["may_lack_records"]]
    names = _some([f"{each['topic']}:{each['partition']}" for each in found])
    what = "1 partition was" if count == 1 else f"{count} partitions were"
    health.warnings.append(
        f"{what} recovered, or elected uncleanly, and may lack acknowledged records"
        f"{f': {names}' if names else ''}; see that producers send the last ones again. This is told until "
        f"another leader is elected: {_ways_to_another_leader(found)}"
    )


def _ways_to_another_leader(recovered: Iterable[dict[str, Any]]) -> str:
    led = [each for each in recovered if each["leader"] is not None]
    alone = sorted({each["leader"] for each in led if len(each["replicas"]) == 1})
    others = sorted({each["leader"] for each in led if len(each["replicas"]) > 1})
    ways = []
    if others:
        ways.append(
            "once all replicas are in sync, `quorate broker drain ID` and then `--cancel`, for broker "
            f"{_all(others)}"
        )
    if alone:
        ways.append(f"a restart of broker {_all(alone)}, as there is no other replica")
    return "; ".join(ways) or "`quorate topic describe` shows who leads"


def _all(ids: Sequence[int]) -> str:
    return ", ".join(map(str, ids))


def _some(names: Sequence[str]) -> str:
    """The first ones, and how many more."""
    beyond = len(names) - _NAMED_MAX
    return ", ".join(names[:_NAMED_MAX]) + (f" and {beyond} more" if beyond > 0 else "")


def _look_at_errors(partitions: Iterable[dict[str, Any]], health: Health) -> None:
    """Leaders that say that they cannot write or serve, and those that say nothing."""
    told = Counter((each["error"]["code"], each["leader"]) for each in partitions if each["error"])
    for (code, leader), count in sorted(told.items()):
        what = f"{count} {'partition' if count == 1 else 'partitions'}"
        if code == DiskFull.code:
            verb = "takes" if count == 1 else "take"
            health.problems.append(
                f"{what} {verb} no records: no space left on the disk of broker {leader} ({code})"
            )
        elif _is_of_storage(code):
            health.problems.append(f"{what} cannot be served by broker {leader} ({code})")
        else:
            # An election takes a moment. A broker that is gone is fenced soon, and that is a problem.
            health.warnings.append(f"broker {leader} could not be asked about {what} that it leads ({code})")


def _is_of_storage(code: str) -> bool:
    """What a disk or a log has, and not what passes in a moment."""
    error = ERRORS_BY_CODE.get(code, Exception)
    return issubclass(error, StorageError) and not issubclass(error, LogBusy | LogClosed)


def _is_unanswered(document: dict[str, Any]) -> bool:
    return document["error"] is not None and not _is_of_storage(document["error"]["code"])


def _gravity(document: dict[str, Any]) -> int:
    """Less is worse; one that cannot be served, though it has a leader, comes first."""
    if document["error"]:
        return -1
    state = document["state"]
    return _STATES_BY_GRAVITY.index(state) if state in _STATES_BY_GRAVITY else len(_STATES_BY_GRAVITY)


def health_of(
    cluster: admin_pb2.DescribeClusterResponse,
    quorum: admin_pb2.DescribeQuorumResponse,
    moves: Sequence[admin_pb2.Reassignment] = (),
) -> Health:
    """``moves``: those under way; without them, what they add counts as missing."""
    health = Health()
    _look_at_quorum(quorum, health)
    copying = sum(map(_only_copies, moves))
    if sentence := moves_sentence(moves):
        health.warnings.append(sentence)
    counts = (
        (cluster.offline_partition_count, "without a leader"),
        (cluster.under_min_isr_partition_count, "with fewer replicas in sync than min.insync.replicas"),
        # Not below 0: the moves were asked about a moment later.
        (
            max(cluster.under_replicated_partition_count - copying, 0),
            "with replicas that are not in sync",
        ),
    )
    health.problems += [
        f"{count} {'partition' if count == 1 else 'partitions'} {what}" for count, what in counts if count
    ]
    for broker in cluster.brokers:
        if broker.is_fenced:
            health.problems.append(
                f"broker {broker.broker_id} at {broker.address} is fenced: down, cut off, or not ready yet"
            )
        elif broker.is_draining:
            health.warnings.append(
                f"broker {broker.broker_id} is draining: it leads nothing new and takes no new replicas; "
                f"`quorate broker drain {broker.broker_id} --cancel` takes it back into service"
            )
    health.warnings += [
        f"unclean election is allowed on {topic}" for topic in cluster.unclean_election_topics
    ]
    return health


def _only_copies(move: admin_pb2.Reassignment) -> bool:
    """All that it lacks is what it adds."""
    missing = set(move.replicas) - set(move.isr)
    return bool(missing) and missing <= set(move.adding_replicas)


def moves_sentence(moves: Iterable[admin_pb2.Reassignment]) -> str | None:
    """About those whose new replicas are not in sync; None: there are none."""
    names = [f"{each.partition.topic}:{each.partition.partition}" for each in moves if _only_copies(each)]
    if not names:
        return None
    what = "1 partition moves" if len(names) == 1 else f"{len(names)} partitions move"
    return (
        f"{what}, and new replicas are not in sync yet: {_some(names)}; "
        f"`quorate partition reassign --list` shows how far {'it is' if len(names) == 1 else 'they are'}"
    )


def _look_at_quorum(quorum: admin_pb2.DescribeQuorumResponse, health: Health) -> None:
    count = len(quorum.voters)
    if count > 0 and count % 2 == 0:
        health.warnings.append(
            f"{count} voters: the loss of {count // 2} stops the quorum, as with {count - 1}; add one more"
        )
    for voter in quorum.voters:
        who = f"voter {voter.node_id} at {voter.address}"
        if voter.HasField("is_digest_equal") and not voter.is_digest_equal:
            health.problems.append(
                f"{who} has other metadata than the leader at offset {voter.applied_index}: stop it, keep "
                "its files"
            )
        if voter.state in ("unreachable", "refused"):
            health.problems.append(f"{who} is {voter.state}")
        elif voter.state not in ("leader", "follower"):
            health.warnings.append(f"{who} is {voter.state}")
    for learner in quorum.learners:
        health.warnings.append(f"node {learner.node_id} is being brought up to date in order to vote")
