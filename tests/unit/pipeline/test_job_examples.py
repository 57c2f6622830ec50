"""Programs to copy say how they are called."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

_EXAMPLES = sorted((Path(__file__).parents[3] / "examples" / "pipeline").glob("*.py"))


@pytest.mark.parametrize("example", _EXAMPLES, ids=lambda path: path.stem)
def test_called_without_arguments_an_example_says_how_it_is_called(example: Path) -> None:
    pytest.importorskip("pyspark", reason="the extra spark is not installed")
    pytest.importorskip("deltalake", reason="the extra delta is not installed")
    ended = subprocess.run(
        [sys.executable, str(example)], capture_output=True, text=True, check=False, timeout=120
    )
    assert ended.returncode == 1
    assert f"    python {example.name} 127.0.0.1:9092 " in ended.stderr
    assert "Traceback" not in ended.stderr
