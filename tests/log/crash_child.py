"""The process whose children are killed: ``python -m tests.log.crash_child``.

Starting Python for every kill would take a hundred times as long as the crash it is about, and forking
pytest itself is unsafe, because it has threads. So one process without threads, that has everything
imported, reads requests and forks a child for each.

A request is a line of JSON on standard input: ``[scenario, directory, kill point or null, traced]``. The
answers are lines of JSON on standard output, written by the child and, at the end, about it:

    ["pid", 4711]
    ["begin", "append", "00ff...", ...]    before an operation; bytes as hexadecimal digits
    ["done"]                               after it
    ["change", "pwritev", "00000000000000000000.log"]   if traced: before each change of a file
    ["end", -9]                            its exit status; negative: the signal that ended it
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import logging
import os
import sys
import traceback
from typing import Final

import structlog

from quorate.core.os_disk import OsDisk
from tests.log.crash_scenarios import SCENARIOS, Life, prepare, stream
from tests.log.killing_disk import Change, KillingDisk, KillPoint, Moment

_STDOUT: Final = 1


def _say(*message: object) -> None:
    """With one system call, so that a line is out before the process goes on, and whole."""
    os.write(_STDOUT, json.dumps(message, default=bytes.hex).encode() + b"\n")


class _Reporter:
    def begin(self, operation: str, *arguments: object) -> None:
        _say("begin", operation, *arguments)

    def done(self) -> None:
        _say("done")


def _trace(change: Change) -> None:
    _say("change", *change)


def _ignore(_: Change) -> None:
    """Not traced."""


async def _live(scenario: str, life: Life) -> None:
    if scenario in SCENARIOS:
        await life.open()
        await SCENARIOS[scenario](life)
    else:
        await {"prepare": prepare, "stream": stream}[scenario](life)


def _run_child(scenario: str, directory: str, kill: list[object] | None, traced: bool) -> None:
    point = None if kill is None else KillPoint(int(str(kill[0])), Moment(kill[1]))
    # Who is killed from outside may just as well wait for the device.
    disk = OsDisk() if scenario == "stream" else KillingDisk(point, _trace if traced else _ignore)
    asyncio.run(_live(scenario, Life(disk, directory, _Reporter())))


def _fork(request: tuple[str, str, list[object] | None, bool]) -> None:
    pid = os.fork()
    if pid == 0:
        status = 1
        # Whatever happens, a child must not return into the parent's loop.
        with contextlib.suppress(BaseException):
            try:
                _run_child(*request)
                status = 0
            except BaseException:
                traceback.print_exc()
                raise
        os._exit(status)
    _say("pid", pid)
    _, status = os.waitpid(pid, 0)
    _say("end", os.waitstatus_to_exitcode(status))


def main() -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    # What is imported now is shared by all children: no reason to ever look through it again.
    gc.collect()
    gc.freeze()
    for line in sys.stdin:
        scenario, directory, kill, traced = json.loads(line)
        _fork((scenario, directory, kill, traced))


if __name__ == "__main__":
    main()
