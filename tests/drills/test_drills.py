"""Short forms of the drills, each one round: the same engine, stories and checks as `quorate drill run`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import pytest

from quorate.chaos.drills.catalogue import find_story
from quorate.chaos.drills.drill import Pace
from quorate.chaos.drills.engine import run_drill
from quorate.chaos.drills.local_agent import LocalAgent
from quorate.chaos.drills.options import DrillOptions
from quorate.chaos.faults.mutated_node import mutated_launcher
from quorate.chaos.history.ledger_file import read_ledger
from quorate.chaos.report.drill_report import DrillReport
from quorate.chaos.report.file_names import HISTORY_FILE, PAGE_FILE, VERDICTS_FILE
from tests.drills.second_opinion import AuditedAgent

_HURRIED: Final = Pace(calm_s=0.2, quiet_s=0.1, fault_s=0.5)
#: A hung broker is noticed sooner than by default. A dead one is noticed at once, whatever these say.
_QUICK: Final = {
    "broker.heartbeat.interval.ms": "100",
    "broker.session.timeout.ms": "2000",
    "broker.lease.ms": "900",
}

#: Of these, audits by Spark have to say the same as the checks: the plainest, and two that are special.
_AUDITED: Final = ("leader-kill", "topic-recreate", "acks-contrast")


def _agent(name: str, directory: Path, *, is_audited: bool) -> LocalAgent:
    story = find_story(name)
    kind = AuditedAgent if is_audited else LocalAgent
    agent = kind.create(story.layout, seed=1, settings=_QUICK, uses=story.uses)
    if isinstance(agent, AuditedAgent):
        agent.directory = directory
    return agent


async def _drill(
    name: str, directory: Path, agent: LocalAgent, *, mutation: str | None = None
) -> DrillReport:
    story = find_story(name)
    if (reason := story.misfit(agent)) is not None:
        await agent.discard()
        pytest.skip(reason)
    if mutation is not None:
        for node in agent.nodes:
            agent.cluster.surround(node.name, launcher=mutated_launcher(mutation))
    options = DrillOptions(seed=1, seconds=0, directory=str(directory), command="", pace=_HURRIED)
    return await run_drill(story, agent, options)


@pytest.mark.parametrize(
    "name",
    [
        "leader-kill",
        "zombie-leader",
        "split-brain",
        "journal-rot",
        "power-loss",
        "topic-recreate",
        "unclean-stays-off",
        "acks-contrast",
        "consumer-crash",
        "zombie-commit",
    ],
)
async def test_no_promise_is_broken(name: str, tmp_path: Path) -> None:
    agent = _agent(name, tmp_path, is_audited=name in _AUDITED)
    report = await _drill(name, tmp_path, agent)

    assert report.passed, [verdict for verdict in report.verdicts if not verdict.passed]
    assert report.outcomes["acknowledged"] > 100
    assert len(report.faults) == 1
    # What is left of it: a page, verdicts, and a history that can be checked again.
    assert name in (tmp_path / PAGE_FILE).read_text()
    assert json.loads((tmp_path / VERDICTS_FILE).read_text())["passed"]
    history = read_ledger(str(tmp_path / HISTORY_FILE))
    assert sum(each.is_acknowledged for each in history.sent) == report.outcomes["acknowledged"]
    if isinstance(agent, AuditedAgent):
        agent.assert_same_opinion(report)


@pytest.mark.parametrize(
    ("name", "mutation", "found"),
    [
        ("unclean-stays-off", "elects-outside-the-isr", {"story", "lost-write", "unclean-election"}),
        ("power-loss", "acknowledge-before-sync", {"lost-write"}),
        ("zombie-commit", "takes-commits-of-whoever-was-removed", {"story", "zombie-commit"}),
    ],
)
async def test_a_broken_build_is_caught(name: str, mutation: str, found: set[str], tmp_path: Path) -> None:
    agent = _agent(name, tmp_path, is_audited="lost-write" in found)
    report = await _drill(name, tmp_path, agent, mutation=mutation)

    assert found <= {verdict.check for verdict in report.verdicts if not verdict.passed}
    assert "violated" in (tmp_path / PAGE_FILE).read_text()
    if isinstance(agent, AuditedAgent):
        agent.assert_same_opinion(report)
