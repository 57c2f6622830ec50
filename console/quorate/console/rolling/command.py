"""What ``quorate cluster rolling-restart`` does once its options are read."""

from __future__ import annotations

import time
from collections.abc import Sequence

from quorate.console.output import print_json
from quorate.console.rolling.restarters import AgentRestarter, LocalRestarter, Restarter
from quorate.console.rolling.roll import Restarted, Roll
from quorate.console.rolling.safety import RollingNode
from quorate.console.session import Session
from quorate.errors import InvalidRequest
from quorate.node.interruption import run_interruptible

__all__ = ["restart_in_turn"]


def restart_in_turn(
    session: Session,
    names: Sequence[str],
    *,
    directory: str | None,
    agent_file: str | None,
    timeout_s: float,
    is_forced: bool,
) -> None:
    """Exactly one of ``directory`` and ``agent_file`` is given."""
    restarter: Restarter
    if directory is not None:
        restarter = LocalRestarter(directory)
    else:
        assert agent_file is not None
        restarter = AgentRestarter(agent_file)
    roll = Roll(restarter, timeout_s=timeout_s, is_forced=is_forced, tell=session.note)
    began = time.monotonic()
    done = run_interruptible(roll.run(_chosen(restarter, names)))
    seconds = time.monotonic() - began
    if session.json:
        print_json({"nodes": [_document(each) for each in done], "seconds": round(seconds, 3)})
    else:
        session.note(f"restarted {len(done)} node(s) in {seconds:.1f} s; every replica is in sync")


def _chosen(restarter: Restarter, names: Sequence[str]) -> Sequence[RollingNode]:
    """By name or id; none named: all."""
    known = {key: node for node in restarter.nodes for key in (node.name, str(node.id))}
    for name in names:
        if name not in known:
            there_are = ", ".join(node.name for node in restarter.nodes)
            raise InvalidRequest(f"there is no node {name}; there are {there_are}", node=name)
    # As a set: a node that is named twice is restarted once.
    wanted = {known[name].name for name in names}
    return [node for node in restarter.nodes if not names or node.name in wanted]


def _document(restarted: Restarted) -> dict[str, object]:
    return {
        "name": restarted.name,
        "id": restarted.id,
        "restart_seconds": round(restarted.restart_s, 3),
        "settle_seconds": round(restarted.settle_s, 3),
    }
