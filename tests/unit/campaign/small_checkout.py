"""A source checkout with next to nothing in it, but something at every place that evidence is about."""

from __future__ import annotations

from pathlib import Path

from quorate.chaos.evidence.sources import SIMULATOR, SOURCES, SOURCES_LEFT_OUT

__all__ = ["make_checkout"]


def make_checkout(root: Path) -> Path:
    for name in (*SOURCES, *SIMULATOR, *SOURCES_LEFT_OUT):
        path = root / name
        file = path if path.suffix else path / "module.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("x = 1\n")
    return root
