"""Curves over sizes, on a logarithmic scale of sizes: one picture for each dimension. By hand, as SVG."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final
from xml.sax.saxutils import escape

from bench.cluster.report import number

__all__ = ["plot"]

_WIDTH, _HEIGHT = 280, 190
_MARGIN: Final = 46
_FONT: Final = 'font-family="system-ui, sans-serif"'
_LINE, _TEXT, _FAINT = "#2a6f9d", "#1d2530", "#5c6773"


def plot(
    title: str, sizes: Sequence[int], figures: Mapping[str, Sequence[float]], units: Mapping[str, str]
) -> str:
    """A field for each figure; each begins at zero, so that a cliff looks like one."""
    width = _WIDTH * len(figures) + 16
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {_HEIGHT + 60}" {_FONT}>',
        f'<rect width="{width}" height="{_HEIGHT + 60}" fill="#ffffff"/>',
        _text(16, 26, title, 16),
    ]
    for index, (name, values) in enumerate(figures.items()):
        parts += _field(16 + _WIDTH * index, f"{name}, {units[name]}", sizes, values)
    return "\n".join([*parts, "</svg>"]) + "\n"


def _field(left: int, title: str, sizes: Sequence[int], values: Sequence[float]) -> list[str]:
    top, bottom = 66, 40 + _HEIGHT - 20
    highest = max(values) or 1.0
    low, high = math.log(sizes[0]), math.log(sizes[-1])
    points = [
        (
            left + 6 + (_WIDTH - _MARGIN - 6) * ((math.log(size) - low) / ((high - low) or 1.0)),
            bottom - (bottom - top) * value / highest,
        )
        for size, value in zip(sizes, values, strict=True)
    ]
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    parts = [
        _text(left, 48, title, 12),
        f'<line x1="{left}" y1="{bottom}" x2="{left + _WIDTH - _MARGIN}" y2="{bottom}" stroke="{_FAINT}"/>',
        f'<polyline points="{line}" fill="none" stroke="{_LINE}"/>',
    ]
    for (x, y), size, value in zip(points, sizes, values, strict=True):
        parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{_LINE}"/>')
        parts.append(_text(x, y - 6, number(value), 10))
        parts.append(_text(x, bottom + 14, f"{size:,}", 10, _FAINT))
    return parts


def _text(x: float, y: float, content: str, size: int, fill: str = _TEXT) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="{fill}">{escape(content)}</text>'
