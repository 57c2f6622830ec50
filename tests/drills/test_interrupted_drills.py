"""The commands that start processes: what ends them early, and that nothing stays behind."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from quorate.chaos.drills.__main__ import main
from quorate.chaos.drills.quorum_faults import FAULTS
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

    with pytest.raises(KeyboardInterrupt):
        run_interruptible(work())
    assert cleaned_up


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_an_interrupted_demonstration_leaves_nothing_behind(
    number: signal.Signals, tmp_path: Path
) -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "quorate.node.demo"),
        env={**os.environ, "TMPDIR": str(tmp_path), "PYTHONUNBUFFERED": "1"},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        # A job in the background would ignore Ctrl-C.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    assert process.stdout is not None
    async with asyncio.timeout(60):
        while not (await process.stdout.readline()).startswith(b"start"):
            assert process.returncode is None
        process.send_signal(number)
        _, errors = await process.communicate()
    assert process.returncode == 130
    assert errors == b""
    assert os.listdir(tmp_path) == []
