"""A short search on every run; `make fuzz` makes a long one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

FUZZER = Path(__file__).with_name("fuzz_records.py")


def test_a_short_search_finds_nothing_that_breaks_the_codec(tmp_path: Path) -> None:
    pytest.importorskip("atheris", reason="extra fuzz")
    pytest.importorskip("quorate.core.records._compiled", reason="there is nothing to compare with")
    done = subprocess.run(
        [sys.executable, str(FUZZER), "-seed=1", "-runs=3000", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert "Done 3000 runs" in done.stderr
