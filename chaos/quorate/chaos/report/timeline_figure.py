"""The picture of a run: throughput, latency and what the cluster did, on one time axis, faults shaded.

One figure instead of several: an outage is understood by looking straight up from it. Latency is drawn on a
logarithmic axis, because the interesting part is a tail that is a thousand times the median. Faults are told
apart by number, not by colour; no other area is filled, or it would pass for one of theirs; and every line
has a shape or a place of its own beside its colour, so that nobody needs to tell red from green.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from quorate.chaos.report.availability import Bin
from quorate.chaos.report.drill_report import DrillReport, Mark, ReportedFault
from quorate.chaos.report.scale import LinearScale, LogScale, time_label
from quorate.chaos.report.svg import broken_line, element, group, text, titled

__all__ = ["timeline_figure"]

_WIDTH: Final = 1080.0
_LEFT: Final = 150.0
_RIGHT: Final = 1064.0
_TOP: Final = 46.0
_PANEL: Final = 170.0
#: between two panels: the title of the lower one stands there
_GAP: Final = 42.0
_LANE: Final = 19.0
_TIME_TICKS_MAX: Final = 14
_FIGURE_WIDTH_PX: Final = 7.0
#: of the legends' font, and of the sample before each entry
_CHARACTER: Final = 6.2
_SAMPLE: Final = 22.0


def timeline_figure(report: DrillReport) -> str:
    seconds = max(report.availability.seconds, 0.1)
    across = LinearScale(0.0, seconds, _LEFT, _RIGHT)
    latency_top = _TOP + _PANEL + _GAP
    lanes_top = latency_top + _PANEL + _GAP
    bottom = lanes_top + _LANE * len(report.lanes)
    parts = [
        _faults(report.faults, across, _TOP, bottom),
        _throughput(report.availability.bins, across, _TOP),
        _latency(report.availability.bins, across, latency_top),
        _lanes(report.marks, report.lanes, across, lanes_top),
        _time_axis(across, bottom),
    ]
    words = f"Throughput, latency and events of {report.drill} over {seconds:.0f} seconds"
    return element(
        "svg",
        "".join(parts),
        class_="timeline",
        viewBox=f"0 0 {_WIDTH:g} {bottom + 44:g}",
        role="img",
        aria_label=words,
    )


# -- faults, behind everything


def _faults(faults: Sequence[ReportedFault], across: LinearScale, top: float, bottom: float) -> str:
    shapes = []
    labelled_to = 0.0
    for number, fault in enumerate(faults, start=1):
        begin, end = across(fault.begun_s), across(fault.ended_s)
        whole = across(fault.ended_s if fault.whole_s is None else fault.whole_s)
        shaded = [
            _shade(begin, end, top, bottom, "fault"),
            _shade(end, whole, top, bottom, "recovery"),
            element("path", d=f"M{begin:.1f} {top:g}V{bottom:g}", class_="fault-edge"),
        ]
        # Numbers that would stand on each other are left out; the pointer still finds each.
        if begin >= labelled_to:
            shaded.append(text(begin + 2, top - 6, str(number), class_="fault-number"))
            labelled_to = begin + _FIGURE_WIDTH_PX * (len(str(number)) + 1)
        title = f"{number}. {fault.kind}: {fault.target} ({fault.ended_s - fault.begun_s:.1f} s)"
        shapes.append(titled("".join(shaded), title))
    return group(shapes)


def _shade(begin: float, end: float, top: float, bottom: float, class_: str) -> str:
    # A fault of an instant must still be seen.
    width = max(end - begin, 1.5 if class_ == "fault" else 0.0)
    return element("rect", x=begin, y=top, width=width, height=bottom - top, class_=class_)


# -- panels


def _throughput(bins: Sequence[Bin], across: LinearScale, top: float) -> str:
    highest = max((each.acknowledged_per_s for each in bins), default=0.0)
    up = LinearScale.up_to(max(highest, 1.0), begin=top + _PANEL, end=top)
    line = [(across(each.at_s), up(each.acknowledged_per_s)) for each in bins]
    return group(
        [
            _grid(((value, f"{value:,.0f}") for value in up.ticks()), up),
            broken_line(line, class_="acks-line"),
            text(_LEFT, top - 18, "Acknowledged records per second", class_="panel-title"),
            _legend(top - 18, [("fault", "a fault lasts"), ("recovery", "until all replicas are in sync")]),
        ]
    )


def _latency(bins: Sequence[Bin], across: LinearScale, top: float) -> str:
    lowest = min((each.p50_ms for each in bins if each.p50_ms), default=1.0)
    highest = max((each.p99_ms for each in bins if each.p99_ms), default=1.0)
    up = LogScale.around(lowest, highest, begin=top + _PANEL, end=top)
    p50 = [None if each.p50_ms is None else (across(each.at_s), up(each.p50_ms)) for each in bins]
    p99 = [None if each.p99_ms is None else (across(each.at_s), up(each.p99_ms)) for each in bins]
    return group(
        [
            _grid(((value, _milliseconds(value)) for value in up.ticks()), up),
            broken_line(p99, class_="p99-line"),
            broken_line(p50, class_="p50-line"),
            text(
                _LEFT,
                top - 18,
                "From sending to acknowledgement (logarithmic; gaps: none)",
                class_="panel-title",
            ),
            _legend(top - 18, [("p50-line", "median"), ("p99-line", "99th percentile")]),
        ]
    )


def _milliseconds(value: float) -> str:
    return f"{value:g} ms" if value < 1_000 else f"{value / 1_000:g} s"


def _grid(ticks: Iterable[tuple[float, str]], up: LinearScale | LogScale) -> str:
    lines = []
    for value, label in ticks:
        y = up(value)
        lines.append(element("path", d=f"M{_LEFT:g} {y:.1f}H{_RIGHT:g}", class_="grid"))
        lines.append(text(_LEFT - 8, y + 4, label, class_="tick", text_anchor="end"))
    return group(lines)


def _legend(y: float, entries: Sequence[tuple[str, str]]) -> str:
    """Ends at the right edge, about: how wide words are is the reader's font's secret."""
    widths = [_SAMPLE + 6 + _CHARACTER * len(words) + 18 for _, words in entries]
    parts, x = [], _RIGHT + 18 - sum(widths)
    for (class_, words), width in zip(entries, widths, strict=True):
        parts.append(
            element("path", d=f"M{x:.1f} {y - 4:.1f}h{_SAMPLE:g}", fill="none", class_=class_)
            if class_.endswith("line")
            else element("rect", x=x, y=y - 10, width=_SAMPLE, height=12, class_=class_)
        )
        parts.append(text(x + _SAMPLE + 6, y, words, class_="legend"))
        x += width
    return group(parts)


# -- what the cluster did


def _lanes(marks: Sequence[Mark], lanes: Sequence[str], across: LinearScale, top: float) -> str:
    parts = [text(_LEFT, top - 12, "What the cluster did by itself", class_="panel-title")]
    for number, lane in enumerate(lanes):
        y = top + number * _LANE
        of_lane = [mark for mark in marks if mark.kind == lane]
        parts.append(element("path", d=f"M{_LEFT:g} {y + _LANE:.1f}H{_RIGHT:g}", class_="grid"))
        label = f"{lane} ({len(of_lane)})"
        parts.append(text(_LEFT - 8, y + _LANE - 5, label, class_="tick", text_anchor="end"))
        parts.extend(_ticks(of_lane, across, y))
    return group(parts)


def _ticks(marks: Sequence[Mark], across: LinearScale, y: float) -> Iterator[str]:
    for mark in marks:
        line = element("path", d=f"M{across(mark.at_s):.1f} {y + 3:.1f}v{_LANE - 5:g}", class_="mark")
        yield titled(line, f"{mark.at_s:.2f} s: {mark.what}")


def _time_axis(across: LinearScale, bottom: float) -> str:
    span_s = across.high
    parts = [element("path", d=f"M{_LEFT:g} {bottom:g}H{_RIGHT:g}", class_="axis")]
    for value in across.time_ticks(_TIME_TICKS_MAX):
        x = across(value)
        parts.append(element("path", d=f"M{x:.1f} {bottom:g}v5", class_="axis"))
        parts.append(text(x, bottom + 18, time_label(value, span_s), class_="tick", text_anchor="middle"))
    unit = "seconds" if ":" not in time_label(0, span_s) else "minutes:seconds"
    parts.append(
        text(_RIGHT, bottom + 36, f"{unit} since the first write", class_="legend", text_anchor="end")
    )
    return group(parts)
