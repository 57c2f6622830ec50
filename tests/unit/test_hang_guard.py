"""The guard against tests that hang, on a small project that pytest runs inside the test."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def test_a_test_that_hangs_fails_with_a_traceback_and_the_others_go_on(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    pytester.makeconftest("from tests import hang_guard\nhang_guard.HANG_SECONDS = 2\n")
    pytester.makepyfile(
        """
        import threading

        def test_stuck(): threading.Event().wait()
        def test_fine(): pass
        """
    )
    result = pytester.runpytest_subprocess("-p", "tests.hang_guard", "-p", "no:asyncio", "-n", "1")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*crashed while running *test_stuck*"])
    result.stderr.fnmatch_lines(["*in test_stuck"])
