"""For runs that are to show that everything was tried: with ``--nothing-skipped`` whoever is skipped fails.

Without it a machine that lacks some tool passes what it can.
"""

from __future__ import annotations

from collections.abc import Generator

import pytest

__all__ = ["pytest_addoption", "pytest_runtest_makereport"]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--nothing-skipped", action="store_true", help="a test that is skipped fails")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.skipped and item.config.getoption("nothing_skipped"):
        report.outcome = "failed"
        report.longrepr = f"{item.nodeid} was skipped: {report.longrepr}"
    return report
