"""Every test suite has a share of the time that `make test` may take, and fails when it takes twice as much.

A suite is a directory under tests/. Its time is the sum over its tests of set-up, call and tear-down,
divided by the number of workers: its share of the wall time of a run in which the suites are mixed to
keep every worker busy. Measuring wall time per suite directly was rejected: the suites would have to run one
after the other, and each would wait for its own slowest test.

A budget is what a suite may take on two cores of the machine that it was measured on, with nothing else to
do. Others are slower: a fixed piece of work is timed first, and budgets grow with what it takes. And machines
are shared, and whatever else runs there makes the same tests slower: a suite over its budget is marked, and
one that is over twice its budget has grown, on whatever machine.

With ``--enforce-budgets`` a table closes the run, and each suite over twice its budget counts as one failed
test, so that pytest's own summary and exit status say so. Without it nothing is measured: budgets are
meant for the whole run on two workers, not for one test under a debugger.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Generator, Sequence
from pathlib import PurePosixPath
from typing import Final, NamedTuple

import pytest

__all__ = ["BUDGETS", "Budget", "SuiteBudgets", "SuiteTime"]


class Budget(NamedTuple):
    suite: str
    directories: tuple[str, ...]  # under tests/; they share the budget
    seconds: float


BUDGETS: Final[tuple[Budget, ...]] = (
    Budget("unit", ("unit", "fuzz"), 140),
    Budget("log", ("log",), 60),
    Budget("raft", ("raft",), 150),
    Budget("simulation", ("simulation",), 350),
    Budget("integration", ("integration",), 260),
    Budget("drills", ("drills",), 210),
    Budget("languages", ("interop",), 90),
    Budget("pipeline", ("pipeline",), 120),
)


#: how much slower a busy machine may make a suite
_NOISE: Final = 2.0
#: what ``_piece_of_work`` takes where the budgets were measured: best of some, of the process alone
_REFERENCE_S: Final = 0.045


class SuiteTime(NamedTuple):
    suite: str
    tests: int
    seconds: float
    budget_seconds: float | None  # None: a directory that BUDGETS does not know

    @property
    def failure(self) -> str | None:
        if self.budget_seconds is None:
            return f"suite {self.suite} has no budget: name its directory in tests/suite_budget.py"
        if self.seconds > _NOISE * self.budget_seconds:
            return (
                f"suite {self.suite} is over its budget: {self.seconds:.1f} s of wall time, "
                f"where {self.budget_seconds:g} s are meant"
            )
        return None

    @property
    def mark(self) -> str:
        if self.failure is not None:
            return "  OVER BUDGET"
        is_over = self.budget_seconds is not None and self.seconds > self.budget_seconds
        return "  over its share: the machine, or the suite?" if is_over else ""


class SuiteBudgets:
    """Pytest plugin. With xdist it runs where all reports arrive, not in the workers."""

    def __init__(self, *, workers: int, budgets: Sequence[Budget], slowness: float = 1.0) -> None:
        """``slowness``: how much longer this machine takes than the one whose budgets these are."""
        assert workers > 0
        self._workers = workers
        self._slowness = slowness
        self._budget_of = {directory: budget for budget in budgets for directory in budget.directories}
        self._tests: defaultdict[str, set[str]] = defaultdict(set)
        self._seconds: defaultdict[str, float] = defaultdict(float)
        self._is_over = False  # then come the reports about budgets, which are no tests

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if self._is_over:
            return
        directory = _directory_under_tests(report.nodeid)
        self._tests[directory].add(report.nodeid)
        self._seconds[directory] += report.duration

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> Generator[None, object, object]:
        result = yield
        self._is_over = True
        for suite in self.times():
            if suite.failure is not None:
                report = _failed_report(suite.suite, suite.failure)
                session.config.hook.pytest_runtest_logreport(report=report)
        return result

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        terminalreporter.section(f"time of the suites, on {self._workers} worker(s)")
        terminalreporter.line(f"budgets are for a machine that takes 1/{self._slowness:.1f} of the time")
        terminalreporter.line(f"{'suite':<14}{'tests':>7}{'time':>11}{'budget':>11}")
        for suite in self.times():
            budget = "none" if suite.budget_seconds is None else f"{suite.budget_seconds:.0f} s"
            row = f"{suite.suite:<14}{suite.tests:>7}{suite.seconds:>9.1f} s{budget:>11}{suite.mark}"
            terminalreporter.line(row, red=bool(suite.failure))

    def times(self) -> list[SuiteTime]:
        seconds: defaultdict[str, float] = defaultdict(float)
        tests: defaultdict[str, int] = defaultdict(int)
        allowed: dict[str, float | None] = {}
        for directory, share in self._seconds.items():
            budget = self._budget_of.get(directory)
            suite = directory if budget is None else budget.suite
            seconds[suite] += share / self._workers
            tests[suite] += len(self._tests[directory])
            allowed[suite] = None if budget is None else budget.seconds * self._slowness
        return [SuiteTime(suite, tests[suite], seconds[suite], allowed[suite]) for suite in sorted(seconds)]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--enforce-budgets",
        action="store_true",
        help="fail when a suite takes more than its share of the time (see tests/suite_budget.py)",
    )


def pytest_configure(config: pytest.Config) -> None:
    is_xdist_worker = hasattr(config, "workerinput")
    if config.getoption("--enforce-budgets") and not is_xdist_worker:
        workers = config.getoption("numprocesses", default=None) or 1
        budgets = SuiteBudgets(workers=workers, budgets=BUDGETS, slowness=_slowness())
        config.pluginmanager.register(budgets, "suite-budgets")


def _slowness() -> float:
    """Never less than one: a fast machine is no reason to have less patience."""
    return max(1.0, min(_timed() for _ in range(5)) / _REFERENCE_S)


def _timed() -> float:
    start = time.process_time()
    _piece_of_work()
    return time.process_time() - start


def _piece_of_work() -> None:
    table: dict[int, int] = {}
    total = 0
    for number in range(200_000):
        table[number & 1023] = total
        total += (number * number) ^ table.get((number * 7) & 1023, 0)


def _directory_under_tests(nodeid: str) -> str:
    """``unit`` for ``tests/unit/records/test_header.py::test_x``; ``tests`` for a file right in tests/."""
    folders = PurePosixPath(nodeid.split("::")[0]).parent.parts
    return folders[1] if len(folders) > 1 else "tests"


def _failed_report(suite: str, statement: str) -> pytest.TestReport:
    name = f"budget of {suite}"
    return pytest.TestReport(
        nodeid=f"tests/suite_budget.py::{name}",
        location=("tests/suite_budget.py", None, name),
        keywords={},
        outcome="failed",
        longrepr=statement,
        when="call",
    )
