"""`quorate drill`, as far as no cluster is needed for it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from quorate.chaos.checks.verdict import Verdict
from quorate.chaos.drills.catalogue import STORIES
from quorate.chaos.history.history import History
from quorate.chaos.history.ledger_file import LedgerFile
from quorate.chaos.report.drill_report import DrillReport
from quorate.chaos.report.file_names import HISTORY_FILE, VERDICTS_FILE
from quorate.console.main import main
from quorate.core.ids import Offset, PartitionId, TopicName, TopicPartition
from quorate.core.records import ConsumerRecord
from tests.unit.drills.drill_reports import HELD, LOST, report_of

Capsys = pytest.CaptureFixture[str]

_PARTITION = TopicPartition(TopicName("ledger"), PartitionId(0))
_AGENT = """
bootstrap = "localhost:1"
nodes = [{name = "one", id = 1, roles = ["broker"]}]
[commands]
start = "true"
kill = "true"
"""


def _documents(capsys: Capsys) -> Any:
    return json.loads(capsys.readouterr().out)


def test_list_names_every_drill_with_what_it_shows_and_needs(capsys: Capsys) -> None:
    assert main(["drill", "list", "--output", "json"]) == 0
    listed = _documents(capsys)
    assert [each["name"] for each in listed] == [*(story.name for story in STORIES), "control-pysyncobj"]
    assert all(each["shows"] for each in listed)
    assert main(["drill", "list"]) == 0
    assert "leader-kill" in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments",
    [
        ["run"],
        ["run", "leader-kill", "--agent", __file__, "--dir", "."],
        ["run", "leader-kill", "--dir", ".", "--brokers", "5"],
        ["run", "leader-kill", "--brokers", "1000000"],
        ["run", "leader-kill", "--minutes", "-1"],
        ["check", "no-such-directory"],
    ],
)
def test_wrong_usage_exits_with_2(capsys: Capsys, arguments: list[str]) -> None:
    assert main(["drill", *arguments]) == 2
    assert "Error" in capsys.readouterr().err


def test_a_drill_that_does_not_exist_is_wrong_usage(capsys: Capsys) -> None:
    assert main(["drill", "run", "nosuchthing"]) == 2
    assert "`quorate drill list` tells them all" in capsys.readouterr().err


def test_a_drill_that_the_agent_cannot_run_is_skipped_with_the_reason(capsys: Capsys, tmp_path: Path) -> None:
    (tmp_path / "agent.toml").write_text(_AGENT)
    report = str(tmp_path / "report")
    run = ["drill", "run", "zombie-leader", "--agent", str(tmp_path / "agent.toml"), "--report", report]
    assert main([*run, "--output", "json"]) == 1, "nothing was run, so nothing was shown"
    [document] = _documents(capsys)
    assert "pause" in document["skipped"]
    assert json.loads((tmp_path / "report" / VERDICTS_FILE).read_text()) == document


@pytest.mark.parametrize(("verdict", "status"), [(HELD, 0), (LOST, 1)])
def test_run_exits_with_1_on_a_broken_promise(
    capsys: Capsys, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, verdict: Verdict, status: int
) -> None:
    async def drilled(*_: object) -> DrillReport:
        return report_of(verdict)

    monkeypatch.setattr("quorate.console.drilling.runs.run_drill", drilled)
    run = ["drill", "run", "leader-kill", "everything", "--report", str(tmp_path / "report")]
    assert main(run) == status
    assert ("FAILED" in capsys.readouterr().out) == bool(status)


def _left_behind(directory: Path, *, read: int) -> None:
    """Two records acknowledged; the last reader has seen so many of them."""
    with LedgerFile.create(str(directory / HISTORY_FILE)) as ledger:
        history = History(recorder=ledger)
        sent = [history.begin("writer", _PARTITION) for _ in range(2)]
        for number, each in enumerate(sent):
            history.acknowledge(each, Offset(number))
        reader = history.assign("last reader", {_PARTITION: Offset(0)})
        history.polled(reader, [_record(number, each.value) for number, each in enumerate(sent[:read])])
        history.caught_up(reader)


def _record(offset: int, value: bytes) -> ConsumerRecord:
    return ConsumerRecord(_PARTITION.topic, _PARTITION.partition, offset, 0, None, value, (), 0)


def test_check_runs_the_checks_again_over_what_a_drill_left(capsys: Capsys, tmp_path: Path) -> None:
    _left_behind(tmp_path, read=2)
    assert main(["drill", "check", str(tmp_path), "--output", "json"]) == 0
    checks = {each["check"]: each for each in _documents(capsys)}
    assert checks["lost-write"]["examined"] == 2


def test_check_exits_with_1_on_a_broken_promise(capsys: Capsys, tmp_path: Path) -> None:
    _left_behind(tmp_path, read=1)
    assert main(["drill", "check", str(tmp_path), "--output", "json"]) == 1
    assert "lost-write" in {each["check"] for each in _documents(capsys) if not each["passed"]}


def test_check_says_what_is_missing_of_a_history(capsys: Capsys, tmp_path: Path) -> None:
    assert main(["drill", "check", str(tmp_path)]) == 1
    assert HISTORY_FILE in capsys.readouterr().err
    with LedgerFile.create(str(tmp_path / HISTORY_FILE)) as ledger:
        History(recorder=ledger).begin("writer", _PARTITION)
    assert main(["drill", "check", str(tmp_path)]) == 1
    assert "the cluster has to be asked" in capsys.readouterr().err
