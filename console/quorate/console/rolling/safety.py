"""Whether the cluster can do without a node for a moment, and who is next.

Pure: what the cluster said in, sentences out. None: go on.

A restart takes away one replica of each partition and one voter. Where all are in sync and every voter
follows, that is what the cluster is made for; where one is missing already, the restart may be the second
loss. So each node waits until the one before is back *in sync*, not only up: whoever goes by processes takes
the next replica away while the first one still catches up.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from quorate.client.quorum_objections import SETTLED_VOTERS
from quorate.console.cluster_health import health_of, moves_sentence
from quorate.v1 import admin_pb2

__all__ = ["RollingNode", "next_node", "unsettled"]


class RollingNode(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def id(self) -> int: ...

    @property
    def roles(self) -> Sequence[str]: ...


def next_node(left: Iterable[RollingNode], controller_id: int | None) -> RollingNode:
    """Controllers first, the active one last among them; then brokers, again the active controller last."""
    return min(left, key=lambda node: ("broker" in node.roles, node.id == controller_id))


def unsettled(
    cluster: admin_pb2.DescribeClusterResponse,
    quorum: admin_pb2.DescribeQuorumResponse,
    moves: Sequence[admin_pb2.Reassignment] = (),
) -> list[str]:
    """What is not as it was before; nobody is restarted as long as there is something."""
    found = list(health_of(cluster, quorum, moves).problems)
    # Health calls these a warning, because they pass; a restart has to wait until they have.
    if sentence := moves_sentence(moves):
        found.append(sentence)
    found += [
        f"voter {voter.node_id} is {voter.state}"
        for voter in quorum.voters
        if voter.state not in SETTLED_VOTERS and voter.state not in ("unreachable", "refused")
    ]
    return found
