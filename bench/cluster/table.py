"""The table as Markdown, and its place in docs/performance.md."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from bench.cluster.comparison import Comparison, Measures, Result
from bench.cluster.report import number

__all__ = ["markdown", "write_into"]

_BEGIN: Final = "<!-- written by bench.cluster: begin -->\n"
_END: Final = "<!-- written by bench.cluster: end -->\n"
_VERDICTS: Final = {True: "met", False: "**missed**", None: ""}


def markdown(title: str, results: Sequence[Result], ours: str, measured: Mapping[str, Measures]) -> str:
    """Medians, and in brackets the lowest and the highest of all rounds."""
    lines = [
        f"{title}:",
        "",
        "| work | ours | theirs | ratio | bar | aim | |",
        "|---|---|---|---|---|---|---|",
    ]
    for result in results:
        row = result.comparison
        cells = (
            row.name,
            _value(result.ours, row, measured.get(ours, {}).get(row.ours)),
            _value(result.theirs, row, measured.get(row.against, {}).get(row.theirs)),
            "" if result.ratio is None else f"{result.ratio:.2f}x",
            _limit(row, row.bar),
            _limit(row, row.aim),
            _VERDICTS[result.passed],
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def write_into(page: Path, table: str) -> None:
    """Between the two marks that the page has for it."""
    text = page.read_text(encoding="utf-8")
    before, begin, rest = text.partition(_BEGIN)
    _, end, after = rest.partition(_END)
    if not begin or not end:
        raise SystemExit(f"{page} has no place for the table: {_BEGIN.strip()} and {_END.strip()}")
    page.write_text(f"{before}{begin}\n{table}\n{end}{after}", encoding="utf-8")


def _value(value: float | None, row: Comparison, rounds: Sequence[float] | None) -> str:
    if value is None or not rounds:
        return ""
    if len(rounds) == 1:
        return f"{number(value)} {row.unit}"
    return f"{number(value)} {row.unit} ({number(min(rounds))} to {number(max(rounds))})"


def _limit(row: Comparison, value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:g} {row.unit}" if row.is_absolute else f"{value:g}x"
