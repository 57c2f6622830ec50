"""What the log tells an operator, and where: never on the standard output of somebody else's program."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent.parent

#: never configures logging, and meets every kind of trouble that a start survives
PROGRAM: Final = """
import asyncio

from quorate.chaos.models.log.log_harness import LogHarness, batch


async def main():
    harness = LogHarness()
    await harness.lead()
    harness.append(*[batch(b"v" * 100)] * 5)
    await harness.log.checkpoint()
    for name in ("leader-epoch-checkpoint", "log-checkpoint", *harness.files(".snapshot")):
        harness.disk.flip_bit(harness.path(name), 400)
    first, *_, last = map(harness.path, sorted(harness.files(".log")))
    harness.disk.open(last).truncate(harness.disk.size(last) - 1)
    await harness.crash()
    harness.disk.flip_bit(first, 0)
    harness.disk.unlink(harness.path("log-checkpoint"))
    await harness.crash()
    assert harness.log.damage is not None
    assert not await harness.log.close()


asyncio.run(main())
"""

EVENTS: Final = (
    "log_checkpoint_damaged",
    "epoch_checkpoint_damaged",
    "log_tail_cut",
    "log_damaged",
    "log_not_closed_cleanly",
)


def test_program_that_configured_no_logging_is_told_on_standard_error_what_happened_to_which_file() -> None:
    result = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert result.stdout == ""
    told = result.stderr.splitlines()
    for event in EVENTS:
        assert any(f"event='{event}'" in line for line in told), (event, told)
    for line in told:
        assert " path='/data/orders-0" in line, line
