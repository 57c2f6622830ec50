"""A test that hangs fails, with a traceback of where it hangs, instead of stopping the whole run.

Only in the worker processes of xdist: there the stuck process can be ended, xdist reports the test as
failed, and a new worker goes on. In a single process that would end the run, and cut short whoever sits in a
debugger.

The limit says nothing about speed: it is longer than any test takes on a slow machine. What a suite may
take is for `suite_budget.py` to decide.
"""

from __future__ import annotations

import faulthandler
import os
import sys
from collections.abc import Generator
from typing import Final

import pytest

__all__ = ["HANG_SECONDS", "HangGuard"]

HANG_SECONDS: Final[float] = 240.0


class HangGuard:
    """Pytest plugin."""

    def __init__(self, *, seconds: float) -> None:
        self._seconds = seconds
        # A copy of the real stream: while a test runs, pytest redirects this one to a file that nobody would
        # read after a crash.
        self._stderr = os.dup(sys.stderr.fileno())

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        faulthandler.dump_traceback_later(self._seconds, exit=True, file=self._stderr)
        try:
            return (yield)
        finally:
            faulthandler.cancel_dump_traceback_later()

    def pytest_unconfigure(self) -> None:
        os.close(self._stderr)


def pytest_configure(config: pytest.Config) -> None:
    if hasattr(config, "workerinput"):
        config.pluginmanager.register(HangGuard(seconds=HANG_SECONDS), "hang-guard")
