"""kill -9 on real files, at every change of the disk in turn, then recover.

Nothing that was acknowledged is missing, nothing is invented, and the log goes on. The points that
matter most have names; the rest is covered by killing the process before each change it makes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Final

import pytest

from tests.log.crash_harness import Corpse, CrashLab, check_recovery
from tests.log.crash_scenarios import SCENARIOS
from tests.log.killing_disk import KillPoint, Moment

_IN_THE_MIDDLE: Final = (Moment.ONE_BYTE, Moment.HEADER, Moment.HALF, Moment.ALL_BUT_ONE)


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CrashLab]:
    lab = CrashLab(tmp_path_factory.mktemp("crashes"))
    yield lab
    lab.close()


@pytest.fixture(scope="module")
def prepared(lab: CrashLab) -> Corpse:
    """A process that stopped in the middle of its life, without a word."""
    corpse = lab.run("prepare")
    assert corpse.exit_status == 0
    return corpse


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_kill_before_every_change(lab: CrashLab, prepared: Corpse, scenario: str) -> None:
    trace = lab.run(scenario, after=prepared, traced=True).trace
    assert trace
    for change in trace:
        if change.operation == "open" and scenario != "open":
            continue
        corpse = lab.run(scenario, after=prepared, kill=KillPoint(change.number, Moment.BEFORE))
        assert corpse.was_killed
        asyncio.run(check_recovery(corpse))
        lab.bury(corpse)
