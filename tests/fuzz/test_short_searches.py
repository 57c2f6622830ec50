"""A short search on every run; `make fuzz` makes a long one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def search(target: str, runs: int, corpus: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", f"tests.fuzz.{target}", "-seed=1", f"-runs={runs}", str(corpus)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert f"Done {runs} runs" in done.stderr


def test_a_short_search_finds_nothing_that_breaks_the_codec(tmp_path: Path) -> None:
    pytest.importorskip("atheris", reason="extra fuzz")
    pytest.importorskip("quorate.core.records._compiled", reason="there is nothing to compare with")
    search("fuzz_records", 3_000, tmp_path)


@pytest.mark.parametrize(
    ("target", "runs"), [("fuzz_transport", 2_000), ("fuzz_answers", 1_000), ("fuzz_server", 200)]
)
def test_a_short_search_finds_nothing_that_breaks_the_transport(
    target: str, runs: int, tmp_path: Path
) -> None:
    pytest.importorskip("atheris", reason="extra fuzz")
    search(target, runs, tmp_path)
