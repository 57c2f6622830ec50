"""What is said about a drill: every check over what clients saw and what the cluster holds."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from quorate.chaos.checks.check_all import check_all
from quorate.chaos.checks.verdict import Verdict
from quorate.chaos.checks.violation import Violation
from quorate.chaos.drills.drill import Drill
from quorate.chaos.drills.timeline import EventKind
from quorate.chaos.drills.watch import ClusterWatch
from quorate.chaos.live.final_state import collect
from quorate.chaos.live.reach import DataDirectory, Reach
from quorate.core.ids import BrokerId
from quorate.errors import QuorateError

__all__ = ["judge"]

#: While no fault lasts. An election takes less than a second and a session at most a few; the rest is for
#: machines that have other things to do.
_ACKNOWLEDGED_WITHIN_S: Final = 30.0


async def judge(drill: Drill, watch: ClusterWatch) -> list[Verdict]:
    """Nobody writes any more, and every node runs."""
    own = [
        *map(Verdict.of, drill.violations),
        _one_controller_in_each_term(watch),
        _story(drill),
    ]
    history = drill.timeline.history
    try:
        final = await collect(_reach(drill, watch), history, list(drill.topics.values()))
    except Violation as violation:
        return [*own, Verdict.of(violation)]
    except (QuorateError, TimeoutError) as error:
        unread = Violation(f"the cluster could not be read: {error!r}", check="unavailable")
        return [*own, Verdict.of(unread)]
    logged = {f"{event} logged": drill.agent.times_logged(event) for event in drill.signs_in_logs}
    final = replace(
        final,
        counters={
            **{kind.value: drill.timeline.count(kind) for kind in EventKind},
            **drill.counted,
            **logged,
        },
        expected=tuple(sorted({*drill.signs, *logged})),
        damages=drill.damages.outcomes(),
        acknowledged_within_s=_ACKNOWLEDGED_WITHIN_S,
    )
    return [*check_all(history, final), *own]


def _reach(drill: Drill, watch: ClusterWatch) -> Reach:
    data_dirs = {
        BrokerId(node.id): DataDirectory(node.name, directory)
        for node in drill.agent.nodes
        if node.is_broker and (directory := drill.agent.data_dir(node.name)) is not None
    }
    return Reach(
        bootstrap=drill.agent.bootstrap, data_dirs=data_dirs, controllers=watch.reachable_controllers
    )


def _story(drill: Drill) -> Verdict:
    """What this story says beside what all drills say."""
    findings = tuple(drill.findings)
    return Verdict("story", None, findings, drill.expectations + drill.rounds, found=len(findings))


def _one_controller_in_each_term(watch: ClusterWatch) -> Verdict:
    """Rule 38's promise, as far as it can be seen from outside."""
    findings = tuple(
        f"term {term} has had the leaders {', '.join(map(watch.name_of, sorted(leaders)))}"
        for term, leaders in sorted(watch.controllers.items())
        if len(leaders) > 1
    )
    return Verdict("two-controllers", None, findings, len(watch.controllers), found=len(findings))
