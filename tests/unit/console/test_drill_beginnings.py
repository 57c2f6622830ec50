"""What ends a drill before it begins, or in its middle, and what is said of it then."""

from __future__ import annotations

import asyncio
import logging
import os
import tempfile
from pathlib import Path

import pytest

from quorate.chaos.drills.agent import ClusterAgent
from quorate.chaos.drills.options import DrillOptions
from quorate.chaos.drills.story import Story
from quorate.chaos.history.history import History
from quorate.chaos.history.ledger_file import LedgerFile
from quorate.chaos.report.drill_report import DrillReport
from quorate.chaos.report.file_names import CLIENTS_LOG_FILE, HISTORY_FILE
from quorate.console.main import main
from quorate.core.ids import PartitionId, TopicName, TopicPartition
from quorate.core.logging import get_logger
from quorate.node.interruption import Terminated
from quorate.node.local_cluster import LocalCluster
from tests.unit.drills.drill_reports import HELD, report_of

Capsys = pytest.CaptureFixture[str]

_AGENT = """
bootstrap = "localhost:1"
nodes = [
  {name = "one", id = 1, roles = ["broker"]},
  {name = "two", id = 2, roles = ["broker"]},
  {name = "three", id = 3, roles = ["broker"]},
]
[commands]
start = "true"
kill = "true"
"""


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody disposes of the cluster of a drill that is not run."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


def test_misspelt_drill_is_wrong_usage_and_the_nearest_is_named(capsys: Capsys) -> None:
    assert main(["drill", "run", "leader-kil"]) == 2
    told = capsys.readouterr().err
    assert "there is no drill leader-kil; did you mean leader-kill" in told
    assert "`quorate drill list`" in told
    assert "split-brain" not in told, "34 names are no answer"


def test_drill_on_a_cluster_that_is_down_says_how_to_start_it(tmp_path: Path, capsys: Capsys) -> None:
    LocalCluster.create(str(tmp_path / "c"))
    run = ["drill", "run", "leader-kill", "--dir", str(tmp_path / "c"), "--report", str(tmp_path / "r")]
    assert main(run) == 1
    error, advice = capsys.readouterr().err.splitlines()
    assert error.startswith("error: UNAVAILABLE: no node of the cluster in ")
    assert f"`quorate up --dir {tmp_path / 'c'}`" in advice
    assert not (tmp_path / "r").exists()


@pytest.mark.parametrize(("kind", "status"), [(KeyboardInterrupt, 130), (Terminated, 143)])
@pytest.mark.parametrize("is_own", [True, False])
def test_interrupted_drill_says_what_is_left_of_it(
    tmp_path: Path,
    capsys: Capsys,
    monkeypatch: pytest.MonkeyPatch,
    kind: type[BaseException],
    status: int,
    is_own: bool,
) -> None:
    async def drilled(_story: Story, _agent: ClusterAgent, options: DrillOptions, *_: object) -> DrillReport:
        await asyncio.to_thread(os.makedirs, options.directory)
        LedgerFile.create(f"{options.directory}/{HISTORY_FILE}").close()
        raise kind

    monkeypatch.setattr("quorate.console.drilling.runs.run_drill", drilled)
    (tmp_path / "agent.toml").write_text(_AGENT)
    report = tmp_path / "report"
    run = ["drill", "run", "leader-kill", "--report", str(report)]
    assert main(run if is_own else [*run, "--agent", str(tmp_path / "agent.toml")]) == status
    told = capsys.readouterr().err
    assert f"what clients did and were told until then is in {report}/{HISTORY_FILE}" in told
    live = f"`quorate drill check --live --bootstrap localhost:1 {report}`"
    assert (live in told) == (not is_own)
    assert ("cannot be asked any more" in told) == is_own


def test_check_of_a_history_without_an_end_says_what_it_takes(tmp_path: Path, capsys: Capsys) -> None:
    with LedgerFile.create(str(tmp_path / HISTORY_FILE)) as ledger:
        History(recorder=ledger).begin("writer", TopicPartition(TopicName("t"), PartitionId(0)))
    assert main(["drill", "check", str(tmp_path)]) == 1
    advice = capsys.readouterr().err.splitlines()[-1]
    assert "--live" in advice
    assert "--help" not in advice


def test_what_clients_log_is_in_the_report_and_not_between_lines_of_progress(
    tmp_path: Path, capsys: Capsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def drilled(*_: object) -> DrillReport:
        get_logger("quorate.client.consumer.fetching").warning("reading_held_up", code="UNAVAILABLE")
        return report_of(HELD)

    monkeypatch.setattr("quorate.console.drilling.runs.run_drill", drilled)
    report = tmp_path / "report"
    handlers = list(logging.getLogger("quorate").handlers)
    assert main(["drill", "run", "leader-kill", "--report", str(report)]) == 0
    assert "reading_held_up" not in capsys.readouterr().err
    assert "event='reading_held_up' code='UNAVAILABLE'" in (report / CLIENTS_LOG_FILE).read_text()
    assert logging.getLogger("quorate").handlers == handlers


def test_drill_in_which_no_client_has_anything_to_say_has_no_such_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def drilled(*_: object) -> DrillReport:
        return report_of(HELD)

    monkeypatch.setattr("quorate.console.drilling.runs.run_drill", drilled)
    report = tmp_path / "report"
    assert main(["drill", "run", "leader-kill", "--report", str(report)]) == 0
    assert not (report / CLIENTS_LOG_FILE).exists()
