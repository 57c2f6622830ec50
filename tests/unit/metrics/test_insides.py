"""Private parts of others are known to one file of the metrics."""

from __future__ import annotations

import ast
from pathlib import Path

METRICS = Path(__file__).parents[3] / "node" / "quorate" / "node" / "metrics"


def private_reads(path: Path) -> list[str]:
    """Names with an underscore that are taken from something else than ``self``."""
    return [
        ast.unparse(node)
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute)
        and node.attr.startswith("_")
        and not node.attr.startswith("__")
        and ast.unparse(node.value) not in ("self", "cls")
    ]


def test_one_file_alone_looks_inside_others() -> None:
    found = {path.name: reads for path in METRICS.glob("*.py") if (reads := private_reads(path))}
    assert found.keys() == {"insides.py"}, found
