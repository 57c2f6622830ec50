"""The commands that start processes: what ends them early, and that nothing stays behind."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import pytest
from click.testing import CliRunner

from quorate.chaos.history.ledger_file import read_ledger
from quorate.chaos.quorum_drills.__main__ import main
from quorate.chaos.quorum_drills.quorum_faults import FAULTS
from quorate.chaos.report.file_names import HISTORY_FILE
from quorate.node.interruption import run_interruptible


def test_a_name_that_no_drill_has_is_wrong_usage_and_the_names_are_told() -> None:
    result = CliRunner().invoke(main, ["--only", "nosuchthing"])
    assert result.exit_code == 2
    assert all(fault.name in result.output for fault in FAULTS)


def test_help_lists_the_drills() -> None:
    words = " ".join(CliRunner().invoke(main, ["--help"]).output.split())
    assert all(fault.name in words for fault in FAULTS)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_lets_the_work_clean_up_and_a_second_one_does_not_disturb_it(number: signal.Signals) -> None:
    cleaned_up = []

    async def work() -> None:
        signal.raise_signal(number)
        try:
            await asyncio.Event().wait()
        finally:
            signal.raise_signal(number)
            # Later than the signal, which reaches the loop through a socket.
            for _ in range(10):
                await asyncio.to_thread(os.getpid)
            cleaned_up.append(True)

    # Whoever runs the tests may ignore it, under nohup or in the background, and so would the work.
    before = signal.signal(number, signal.SIG_DFL)
    try:
        with pytest.raises(KeyboardInterrupt):
            run_interruptible(work())
    finally:
        signal.signal(number, before)
    assert cleaned_up


async def _interrupted(
    words: Sequence[str],
    directory: Path,
    *,
    stream: Literal["stdout", "stderr"],
    sign: bytes,
    by: signal.Signals,
) -> tuple[int | None, bytes]:
    """The exit status, and what it says on stderr once it was interrupted, which is after ``sign``."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", *words),
        env={**os.environ, "TMPDIR": str(directory), "PYTHONUNBUFFERED": "1"},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        # A job in the background would ignore Ctrl-C.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    lines = getattr(process, stream)
    async with asyncio.timeout(60):
        while not (line := await lines.readline()).startswith(sign):
            # At the end of the stream reading returns at once, for ever.
            assert line, f"it ended before {sign!r}: {await process.communicate()}"
        process.send_signal(by)
        _, errors = await process.communicate()
    return process.returncode, errors


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_an_interrupted_demonstration_leaves_nothing_behind(
    number: signal.Signals, tmp_path: Path
) -> None:
    ended = await _interrupted(["quorate.chaos.demo"], tmp_path, stream="stdout", sign=b"start", by=number)
    assert ended == (130, b"")
    assert os.listdir(tmp_path) == []


async def test_an_interrupted_drill_leaves_nothing_behind_but_its_ledger(tmp_path: Path) -> None:
    (tmp_path / "tmp").mkdir()
    report = tmp_path / "report"
    words = ["quorate.console.main", "drill", "run", "split-brain", "--seed=1", f"--report={report}"]
    ended = await _interrupted(words, tmp_path / "tmp", stream="stderr", sign=b"a leader", by=signal.SIGINT)
    status, told = ended
    assert status == 130
    assert f"until then is in {report}/{HISTORY_FILE}".encode() in told
    assert told.endswith(b"\n\n"), "the line in which a terminal shows ^C is ended"
    assert os.listdir(tmp_path / "tmp") == []
    assert os.listdir(report) == [HISTORY_FILE]
    assert any(sent.is_acknowledged for sent in read_ledger(str(report / HISTORY_FILE)).sent)
