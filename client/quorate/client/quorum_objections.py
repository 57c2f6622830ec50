"""Whether the metadata quorum can do without a node: what its controllers do not look at for a broker.

Pure: what the quorum said in, sentences out. None: it can.
"""

from __future__ import annotations

from typing import Final

from quorate.v1 import admin_pb2

__all__ = ["SETTLED_VOTERS", "quorum_objections"]

#: states of voters that a majority may be made of
SETTLED_VOTERS: Final = frozenset({"leader", "follower"})


def quorum_objections(node_id: int, quorum: admin_pb2.DescribeQuorumResponse, *, name: str) -> list[str]:
    """Whether enough voters follow without this one, if it is one; ``name``: as people know it."""
    count = len(quorum.voters)
    others = [voter for voter in quorum.voters if voter.node_id != node_id]
    unsettled = [voter for voter in others if voter.state not in SETTLED_VOTERS]
    if len(others) == count or len(others) - len(unsettled) >= count // 2 + 1:
        return []
    who = ", ".join(f"voter {voter.node_id} is {voter.state}" for voter in unsettled)
    of_whom = f"Of {count} {'voter' if count == 1 else 'voters'} no majority is left without {name}"
    return [f"{of_whom}{f' ({who})' if who else ''}: nothing is decided meanwhile."]
