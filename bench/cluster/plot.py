"""The comparison as a picture: how many times better than the other system, on a logarithmic scale.

Better always points to the right: for a time or a size that is the other's divided by ours. Written by hand
as SVG: a plotting package would be a requirement for one picture of a dozen bars.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NamedTuple
from xml.sax.saxutils import escape

from bench.cluster.comparison import Result
from bench.cluster.report import number

__all__ = ["plot"]

_WIDTH: Final = 1100
_NAMES: Final = 400
_VALUES: Final = 190
_ROW: Final = 28
_TOP: Final = 78
_BOTTOM: Final = 44
_FONT: Final = 'font-family="system-ui, sans-serif"'
_MET, _MISSED, _STATED = "#2a9d5c", "#c8443c", "#7a8794"
_TEXT, _FAINT, _GRID = "#1d2530", "#5c6773", "#dde2e7"


class _Scale(NamedTuple):
    """Powers of two, from the lowest to the highest that is needed."""

    lowest: int
    highest: int

    def x(self, times: float) -> float:
        span = _WIDTH - _NAMES - _VALUES
        return _NAMES + span * (math.log2(times) - self.lowest) / (self.highest - self.lowest)


def plot(title: str, results: Sequence[Result]) -> str:
    """Only what both sides measured."""
    rows = [(result, advantage) for result in results if (advantage := _advantage(result)) is not None]
    marks = [mark for result, _ in rows for mark, _ in _marks(result)]
    powers = [math.log2(times) for times in (1.0, *marks, *(advantage for _, advantage in rows))]
    scale = _Scale(math.floor(min(powers) - 0.1), math.ceil(max(powers) + 0.1))
    height = _TOP + _ROW * len(rows) + _BOTTOM
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" {_FONT}>',
        f'<rect width="{_WIDTH}" height="{height}" fill="#ffffff"/>',
        _text(16, 28, title, size=17, weight="600"),
        _text(16, 50, "Times better than the other system (a bar to the right is better).", fill=_FAINT),
        *_grid(scale, height),
    ]
    for index, (result, advantage) in enumerate(rows):
        parts += _row(result, advantage, scale, _TOP + _ROW * index)
    parts += [*_legend(height), "</svg>"]
    return "\n".join(parts) + "\n"


def _advantage(result: Result) -> float | None:
    if not result.ratio:
        return None
    return result.ratio if result.comparison.better == "higher" else 1 / result.ratio


def _marks(result: Result) -> list[tuple[float, str]]:
    """Where the bar and the aim are on the same scale, and how each is drawn."""
    row = result.comparison
    assert result.theirs is not None
    unit = result.theirs if row.is_absolute else 1.0
    drawn = ((row.bar, ""), (row.aim, ' stroke-dasharray="3 3"'))
    limits = [(limit / unit, dashes) for limit, dashes in drawn if limit is not None]
    return [(limit if row.better == "higher" else 1 / limit, dashes) for limit, dashes in limits]


def _grid(scale: _Scale, height: int) -> list[str]:
    parts = []
    for power in range(scale.lowest, scale.highest + 1):
        x = scale.x(2.0**power)
        colour = _TEXT if power == 0 else _GRID
        bottom = height - _BOTTOM + 4
        parts.append(f'<line x1="{x:.1f}" y1="{_TOP - 6}" x2="{x:.1f}" y2="{bottom}" stroke="{colour}"/>')
        label = f"{2**power}x" if power >= 0 else f"1/{2**-power}"
        parts.append(_text(x, _TOP - 10, label, fill=_FAINT, anchor="middle", size=11))
    return parts


def _row(result: Result, advantage: float, scale: _Scale, top: int) -> list[str]:
    row = result.comparison
    colour = {True: _MET, False: _MISSED, None: _STATED}[result.passed]
    left, right = sorted((scale.x(1.0), scale.x(advantage)))
    middle = top + _ROW / 2 + 4
    assert result.ours is not None
    assert result.theirs is not None
    values = f"{number(result.ours)} : {number(result.theirs)} {row.unit}"
    parts = [
        _text(_NAMES - 12, middle, row.name, anchor="end"),
        _box(left, top + 6, max(right - left, 1), _ROW - 12, colour),
        _text(_WIDTH - 16, middle, values, anchor="end", fill=_FAINT),
    ]
    for mark, dashes in _marks(result):
        x = scale.x(mark)
        parts.append(
            f'<line x1="{x:.1f}" y1="{top + 2}" x2="{x:.1f}" y2="{top + _ROW - 2}" '
            f'stroke="{_TEXT}" stroke-width="2"{dashes}/>'
        )
    return parts


def _legend(height: int) -> list[str]:
    parts = []
    x = _NAMES
    for colour, what in ((_MET, "bar met"), (_MISSED, "bar missed"), (_STATED, "stated")):
        parts.append(_box(x, height - 24, 12, 12, colour))
        parts.append(_text(x + 18, height - 13, what, fill=_FAINT))
        x += 100
    parts.append(_text(x, height - 13, "| bar   ¦ aim   values: ours : theirs", fill=_FAINT))
    return parts


def _box(x: float, y: float, width: float, height: float, fill: str) -> str:
    return f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{height}" fill="{fill}" rx="2"/>'


def _text(
    x: float,
    y: float,
    content: str,
    *,
    fill: str = _TEXT,
    anchor: str = "start",
    size: int = 13,
    weight: str = "400",
) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" fill="{fill}" text-anchor="{anchor}" font-size="{size}" '
        f'font-weight="{weight}">{escape(content)}</text>'
    )
