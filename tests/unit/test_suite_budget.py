"""The time budget of the test suites: its arithmetic, and small projects in which pytest enforces it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.suite_budget import BUDGETS, Budget, SuiteBudgets

ROOT = Path(__file__).parents[2]
# No time at all: any test exceeds it. And so much that none does, however slow the machine is.
NOTHING, PLENTY = 0.0, 3600.0


@pytest.fixture(params=[[], ["-n", "2"]], ids=["one process", "two workers"])
def processes(request: pytest.FixtureRequest) -> list[str]:
    options: list[str] = request.param
    return options


def run_project(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, *options: str, budget_seconds: float
) -> pytest.RunResult:
    """Pytest on a project with one suite, tests/unit, of two passing tests."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    pytester.makeconftest(
        f"""
        from tests import suite_budget
        suite_budget.BUDGETS = (suite_budget.Budget("small", ("unit",), {budget_seconds}),)
        """
    )
    suite = pytester.path / "tests" / "unit"
    suite.mkdir(parents=True)
    (suite / "test_two.py").write_text("def test_one(): pass\ndef test_other(): pass\n")
    return pytester.runpytest_subprocess("-p", "tests.suite_budget", "-p", "no:asyncio", *options)


def report(nodeid: str, *, seconds: float) -> pytest.TestReport:
    return pytest.TestReport(nodeid, (nodeid, None, nodeid), {}, "passed", None, "call", duration=seconds)


def test_a_suite_over_its_budget_fails_the_run_and_says_so(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, processes: list[str]
) -> None:
    result = run_project(pytester, monkeypatch, "--enforce-budgets", *processes, budget_seconds=NOTHING)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(["suite small is over its budget: * s of wall time, where 0 s are meant"])
    result.stdout.fnmatch_lines(
        ["suite * tests * time * budget", "small * 2 * 0 s  OVER BUDGET", "=*"], consecutive=True
    )


def test_a_run_within_its_budgets_passes_and_shows_the_times(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, processes: list[str]
) -> None:
    result = run_project(pytester, monkeypatch, "--enforce-budgets", *processes, budget_seconds=PLENTY)
    assert result.ret == pytest.ExitCode.OK
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines([f"*on {2 if processes else 1} worker(s)*", "suite *", "small * 2 * s * s"])


def test_budgets_are_not_enforced_unless_asked_for(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = run_project(pytester, monkeypatch, budget_seconds=NOTHING)
    assert result.ret == pytest.ExitCode.OK
    result.assert_outcomes(passed=2)
    result.stdout.no_fnmatch_line("*worker(s)*")


def test_time_of_a_suite_is_the_sum_of_its_phases_divided_by_the_workers() -> None:
    budgets = SuiteBudgets(workers=2, budgets=[Budget("languages", ("interop", "spark"), 10)])
    budgets.pytest_runtest_logreport(report("tests/interop/test_a.py::test_x", seconds=1.0))
    budgets.pytest_runtest_logreport(report("tests/interop/test_a.py::test_x", seconds=2.0))
    budgets.pytest_runtest_logreport(report("tests/spark/deep/test_b.py::test_y", seconds=5.0))
    (languages,) = budgets.times()
    assert (languages.suite, languages.tests, languages.seconds) == ("languages", 2, 4.0)
    assert languages.failure is None


@pytest.mark.parametrize(
    ("seconds", "mark", "is_failed"), [(10.0, "", False), (19.9, "the machine", False), (20.1, "OVER", True)]
)
def test_a_busy_machine_may_take_twice_as_long(seconds: float, mark: str, is_failed: bool) -> None:
    budgets = SuiteBudgets(workers=1, budgets=[Budget("log", ("log",), 10)])
    budgets.pytest_runtest_logreport(report("tests/log/test_a.py::test_x", seconds=seconds))
    (log,) = budgets.times()
    assert mark in log.mark
    assert bool(log.mark) is bool(mark)
    assert (log.failure is not None) is is_failed


def test_a_machine_that_takes_longer_for_everything_has_larger_budgets() -> None:
    budgets = SuiteBudgets(workers=1, budgets=[Budget("log", ("log",), 10)], slowness=1.5)
    budgets.pytest_runtest_logreport(report("tests/log/test_a.py::test_x", seconds=29.0))
    (log,) = budgets.times()
    assert (log.budget_seconds, log.failure) == (15, None)


def test_a_suite_that_no_budget_names_is_a_failure() -> None:
    budgets = SuiteBudgets(workers=1, budgets=[])
    budgets.pytest_runtest_logreport(report("tests/new/test_a.py::test_x", seconds=0.0))
    (new,) = budgets.times()
    assert new.failure is not None
    assert "new has no budget" in new.failure


def test_every_suite_of_this_repository_has_a_budget() -> None:
    named = {directory for budget in BUDGETS for directory in budget.directories}
    suites = {path.relative_to(ROOT / "tests").parts[0] for path in (ROOT / "tests").glob("*/**/test_*.py")}
    assert suites <= named
