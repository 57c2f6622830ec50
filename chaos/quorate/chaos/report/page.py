"""report.html: one file that needs nothing else, to be read years later and without a network."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from typing import Final

from quorate.chaos.checks.verdict import Verdict
from quorate.chaos.report.drill_report import DrillReport, ReportedFault
from quorate.chaos.report.file_names import HISTORY_FILE, VERDICTS_FILE
from quorate.chaos.report.promises import promise_of
from quorate.chaos.report.style import STYLE
from quorate.chaos.report.timeline_figure import timeline_figure

__all__ = ["report_page"]

_FAULTS_SHOWN: Final = 12
_FINDINGS_SHOWN: Final = 5
#: what makes values of records as long as they are
_PADDING: Final = re.compile(r"\.{4,}")


def report_page(report: DrillReport) -> str:
    title = f"Drill {report.drill}, seed {report.seed}: {_verdict_words(report)}"
    body = "".join(
        (
            _heading(report),
            _cards(report),
            f"<div class='scroll'>{timeline_figure(report)}</div>" if report.lanes else "",
            _what_went_wrong(report.verdicts),
            f"<h2>Checks</h2><div class='checks'>{_checks(report.verdicts)}</div>",
            f"<h2>Faults</h2>{_faults(report.faults)}" if report.faults else "",
            _facts("What the story measured", report.figures),
            _facts("How it was run", report.surroundings),
            _how_to_check_again(report),
        )
    )
    return (
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>"
        f"<title>{escape(title)}</title><style>{STYLE}</style></head><body><main>{body}</main></body></html>\n"
    )


def _verdict_words(report: DrillReport) -> str:
    if report.passed:
        return "passed"
    return f"{report.violations} of {len(report.verdicts)} checks failed"


def _heading(report: DrillReport) -> str:
    class_ = "passed" if report.passed else "failed"
    return (
        f"<h1>{escape(report.drill)} <span class='verdict {class_}'>{_verdict_words(report)}</span></h1>"
        f"<p>{escape(report.shows[:1].upper() + report.shows[1:])}.</p>"
        f"<p class='soft'>Began {escape(report.began)} and lasted {report.seconds:.0f} s: the fault was "
        f"inflicted in {_rounds(report.rounds)}, under load. Seed {report.seed}.</p>"
    )


def _rounds(count: int) -> str:
    return "1 round" if count == 1 else f"{count:,} rounds"


def _cards(report: DrillReport) -> str:
    availability, count = report.availability, report.fault_counts.total()
    cards = [
        *((f"{count:,}", name) for name, count in report.outcomes.items()),
        (f"{report.records_read:,}", "records read"),
        (f"{count:,}", "fault" if count == 1 else "faults"),
    ]
    if availability.times_s:
        cards.append((f"{availability.longest_gap_s:.2f} s", "longest time without any acknowledgement"))
    if availability.p50_ms is not None and availability.p99_ms is not None:
        cards.append((_duration(availability.p50_ms), "until acknowledged, median"))
        cards.append((_duration(availability.p99_ms), "until acknowledged, 99th percentile"))
    written = "".join(
        f"<div class='card'><b>{escape(value)}</b><span>{escape(label)}</span></div>"
        for value, label in cards
    )
    return f"<div class='cards'>{written}</div>"


def _duration(milliseconds: float) -> str:
    return f"{milliseconds:.1f} ms" if milliseconds < 1_000 else f"{milliseconds / 1_000:.2f} s"


def _checks(verdicts: Sequence[Verdict]) -> str:
    rows = [
        (
            escape(promise_of(verdict.check).words),
            _name(verdict),
            _verdict(verdict),
            f"{verdict.examined:,}",
            _found(verdict),
            _figures(verdict),
        )
        for verdict in verdicts
    ]
    return _table(("What must hold", "Otherwise", "Verdict", "#Examined", "#Found", "Measured"), rows)


def _name(verdict: Verdict) -> str:
    """Of what goes wrong: ours, and Jepsen's where it has another one."""
    names = dict.fromkeys((verdict.check, verdict.anomaly or verdict.check))
    return ", ".join(f"<code>{escape(name)}</code>" for name in names)


def _verdict(verdict: Verdict) -> str:
    if not verdict.passed:
        return "<b class='failed verdict-words'>✗ violated</b>"
    if not verdict.examined:
        return "<span class='silent verdict-words'>nothing to look at</span>"
    return "<span class='passed verdict-words'>✓ held</span>"


def _what_went_wrong(verdicts: Sequence[Verdict]) -> str:
    """In words, across the whole page: a column of a table would be too narrow for it."""
    failed = [verdict for verdict in verdicts if not verdict.passed]
    if not failed:
        return ""
    told = "".join(
        f"<h3>{_name(verdict)} <span class='soft'>{escape(promise_of(verdict.check).words)}</span></h3>"
        f"<ul>{''.join(f'<li>{each}</li>' for each in _findings(verdict))}</ul>"
        for verdict in failed
    )
    return f"<h2>What went wrong</h2><div class='wrong'>{told}</div>"


def _findings(verdict: Verdict) -> Iterator[str]:
    shown = verdict.findings[:_FINDINGS_SHOWN]
    yield from (escape(_PADDING.sub("…", finding)) for finding in shown)
    more = _count(verdict) - len(shown)
    if more > 0:
        yield f"and {more:,} more"


def _count(verdict: Verdict) -> int:
    return max(verdict.found, len(verdict.findings))


def _found(verdict: Verdict) -> str:
    """How much of what must not be; what it is stands above the table."""
    count = _count(verdict)
    return f"<b class='failed'>{count:,}</b>" if count else "-"


def _figures(verdict: Verdict) -> str:
    """What a check counts on its way. It says nothing about whether the check held."""
    figures = verdict.figures.items() if verdict.examined else ()
    return f"<span class='soft'>{', '.join(_measured(name, value) for name, value in figures)}</span>"


def _measured(name: str, value: float) -> str:
    """A name tells its unit at its end."""
    if name.endswith("_s"):
        return f"{escape(name.removesuffix('_s').replace('_', ' '))}: {value:,.2f} s"
    return f"{escape(name.replace('_', ' '))}: {value:,.6g}"


def _faults(faults: Sequence[ReportedFault]) -> str:
    columns = ("#", "#At", "Fault", "Target", "#Lasted", "#Longest gap", "#In sync again after")
    rows = [
        (
            str(number),
            f"{fault.begun_s:.1f} s",
            escape(fault.kind),
            escape(fault.target),
            f"{fault.ended_s - fault.begun_s:.2f} s",
            f"{fault.gap_s:.2f} s",
            "not" if fault.whole_s is None else f"{fault.whole_s - fault.begun_s:.2f} s",
        )
        for number, fault in enumerate(faults, start=1)
    ]
    if len(rows) <= _FAULTS_SHOWN:
        return _table(columns, rows)
    # The rest is there for whoever looks for it; a run of ten minutes has a hundred.
    return (
        _table(columns, rows[:_FAULTS_SHOWN])
        + f"<details><summary>{len(rows) - _FAULTS_SHOWN} more</summary>"
        + _table(columns, rows[_FAULTS_SHOWN:])
        + "</details>"
    )


def _facts(title: str, facts: Mapping[str, str]) -> str:
    if not facts:
        return ""
    rows = [(escape(name), f"<code>{escape(value)}</code>") for name, value in facts.items()]
    return f"<h2>{escape(title)}</h2><div class='facts'>{_table((), rows)}</div>"


def _how_to_check_again(report: DrillReport) -> str:
    history = (
        f"<code>{HISTORY_FILE}</code> beside this page holds every operation of every client with its times "
        "and its outcome, one JSON document on each line; "
    )
    return (
        "<h2>To see it again</h2>"
        f"<p><code>{escape(report.command)}</code></p>"
        f"<p class='soft'>{history if report.has_history else ''}<code>{VERDICTS_FILE}</code> "
        f"{'' if report.has_history else 'beside this page '}holds this page's tables.</p>"
    )


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """``rows`` are HTML; a column whose name begins with # holds numbers."""
    classes = [" class='number'" if column.startswith("#") else "" for column in columns]
    head = "".join(
        f"<th{class_}>{escape(column.removeprefix('#') or '#')}</th>"
        for column, class_ in zip(columns, classes, strict=True)
    )
    body = "".join(
        "<tr>"
        + "".join(f"<td{classes[i] if classes else ''}>{cell}</td>" for i, cell in enumerate(row))
        + "</tr>"
        for row in rows
    )
    return f"<div class='scroll'><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
