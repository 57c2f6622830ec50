"""The control is caught, and its report says what was done and for how long."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from quorate.chaos.drills.control import misfit_of_control, run_control
from quorate.chaos.drills.options import DrillOptions
from quorate.chaos.drills.progress import Silence
from quorate.chaos.report.file_names import HISTORY_FILE, PAGE_FILE, VERDICTS_FILE


async def test_stock_pysyncobj_is_caught_and_the_time_that_it_took_is_reported(tmp_path: Path) -> None:
    if (reason := misfit_of_control()) is not None:
        pytest.skip(reason)
    # No longer than it takes.
    options = DrillOptions(seed=1, seconds=0, directory=str(tmp_path), command="")
    began_s = time.monotonic()

    report = await run_control(options, Silence(), attempt_s=4)

    assert report.passed, report.verdicts
    assert report.rounds > 0
    assert 0 < report.seconds <= time.monotonic() - began_s
    assert json.loads((tmp_path / VERDICTS_FILE).read_text())["passed"]
    # Nothing is promised that is not there.
    assert not (tmp_path / HISTORY_FILE).exists()
    assert HISTORY_FILE not in (tmp_path / PAGE_FILE).read_text()
