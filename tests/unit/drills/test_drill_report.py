"""What is left of a drill: the page, the verdicts, and what they are made of."""

from __future__ import annotations

import json
from dataclasses import replace
from xml.etree import ElementTree

import pytest

from quorate.chaos.checks.case import Case
from quorate.chaos.checks.check_all import CHECKS
from quorate.chaos.checks.final_state import FinalState
from quorate.chaos.checks.verdict import Verdict
from quorate.chaos.evidence.checkout import Commit
from quorate.chaos.history.history import History
from quorate.chaos.report.availability import availability_of, longest_gap
from quorate.chaos.report.file_names import HISTORY_FILE
from quorate.chaos.report.page import report_page
from quorate.chaos.report.promises import promise_of
from quorate.chaos.report.scale import LinearScale, LogScale, time_label
from quorate.chaos.report.this_quorate import this_quorate
from quorate.chaos.report.timeline_figure import timeline_figure
from quorate.chaos.report.verdicts_file import verdicts_text
from tests.unit.drills.drill_reports import LOST, acknowledged, report_of


def test_availability_shows_a_gap_as_bins_without_acknowledgements() -> None:
    availability = report_of().availability
    assert availability.bin_s == 0.1
    by_time = {round(each.at_s, 2): each for each in availability.bins}
    assert by_time[5.05].acknowledged_per_s == pytest.approx(100)
    assert by_time[5.05].p50_ms == pytest.approx(5)
    assert (by_time[9.05].acknowledged_per_s, by_time[9.05].p99_ms) == (0, None)
    assert availability.longest_gap_s == pytest.approx(2.01)


def test_longest_gap_reaches_to_the_bounds_of_what_is_asked_for() -> None:
    assert longest_gap([1.0, 2.0, 9.0], 0.0, 10.0) == 7.0
    assert longest_gap([1.0, 2.0], 0.0, 10.0) == 8.0
    assert longest_gap([], 3.0, 5.0) == 2.0
    assert longest_gap([1.0, 4.0, 9.0], 3.0, 5.0) == 1.0


def test_a_long_run_has_no_more_bins_than_a_page_can_show() -> None:
    sent = [acknowledged(number, begun_s=float(number), latency_s=0.01) for number in range(7_200)]
    availability = availability_of(sent, began_s=0, ended_s=7_200)
    assert len(availability.bins) <= 3_001
    assert sum(each.acknowledged_per_s for each in availability.bins) * availability.bin_s == pytest.approx(
        7_200
    )


def test_page_tells_the_verdict_and_escapes_what_it_is_told() -> None:
    page = report_page(report_of(LOST))
    assert "1 of 1 checks failed" in page
    assert "&lt;b&gt;offset 7&lt;/b&gt; is gone" in page
    assert "and 2 more" in page
    assert "A leader &amp; its end." in page
    assert "quorate drill run leader-kill --seed=7" in page


def test_page_speaks_of_a_history_only_where_there_is_one() -> None:
    assert HISTORY_FILE in report_page(report_of())
    assert HISTORY_FILE not in report_page(replace(report_of(), has_history=False))


def test_page_needs_nothing_but_itself() -> None:
    page = report_page(report_of())
    assert "passed" in page
    for outside in ("http:", "https:", "src=", "<script", "<link", "@import", "url("):
        assert outside not in page


def test_figure_is_sound_xml_with_faults_marks_and_all_lines() -> None:
    figure = ElementTree.fromstring(timeline_figure(report_of()))
    classes = {each.get("class") for each in figure.iter()}
    assert {"fault", "recovery", "acks-line", "p50-line", "p99-line", "mark", "grid", "axis"} <= classes
    titles = [each.text for each in figure.iter("title")]
    assert any("kill -9 of a leader" in (title or "") for title in titles)


def test_only_faults_and_what_follows_them_are_shaded() -> None:
    """Anything else that is filled would pass for one of them, and change their colours."""
    figure = ElementTree.fromstring(timeline_figure(report_of()))
    lines = [each.get("class") for each in figure.iter("path") if each.get("fill", "") != "none"]
    assert set(lines) <= {"grid", "axis", "mark", "fault-edge"}
    assert {each.get("class") for each in figure.iter("rect")} == {"fault", "recovery"}


@pytest.mark.parametrize(("count", "cell"), [(0, "-"), (3, "<b class='failed'>3</b>")])
def test_what_a_check_measures_is_not_what_it_has_found(count: int, cell: str) -> None:
    findings = ("gone",) * count
    verdict = Verdict("lost-write", "lost-write", findings, 10, found=count, figures={"longest_wait_s": 2.0})
    page = report_page(report_of(verdict))
    assert f"<td class='number'>{cell}</td><td><span class='soft'>longest wait: 2.00 s</span></td>" in page


@pytest.mark.parametrize(
    ("commit", "told"),
    [
        (Commit("0123456789abcdef", is_clean=True), "commit 0123456789"),
        (Commit("0123456789abcdef", is_clean=False), "commit 0123456789 and changes"),
        (Commit(None, is_clean=False), "no commit known"),
    ],
)
def test_report_names_the_commit_that_was_run(
    monkeypatch: pytest.MonkeyPatch, commit: Commit, told: str
) -> None:
    monkeypatch.setattr("quorate.chaos.report.this_quorate.commit_of", lambda _root: commit)
    assert this_quorate().endswith(f", {told}")


def test_package_that_is_no_checkout_has_no_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quorate.chaos.report.this_quorate.find_checkout", lambda: None)
    assert this_quorate().endswith(", no commit known")


def test_figure_of_a_run_in_which_nothing_was_acknowledged_is_drawn() -> None:
    empty = availability_of((), began_s=0, ended_s=5)
    figure = timeline_figure(replace(report_of(), availability=empty))
    assert ElementTree.fromstring(figure).get("class") == "timeline"


def test_verdicts_file_says_what_the_page_says() -> None:
    document = json.loads(verdicts_text(report_of(LOST)))
    assert not document["passed"]
    [check] = document["checks"]
    assert (check["check"], check["found"], check["examined"]) == ("lost-write", 3, 10)
    assert document["faults"][0]["target"] == "node-1"
    assert document["longest_gap_s"] == pytest.approx(2.01)


def test_every_check_has_its_promise_in_words() -> None:
    case = Case(History(), FinalState({}))
    for check in CHECKS:
        name = check(case).check
        assert promise_of(name).words != name, f"{name} has no sentence in report/promises.py"


def test_axes_are_labelled_at_round_values() -> None:
    assert list(LinearScale.up_to(730, begin=0, end=1).ticks()) == [0, 200, 400, 600, 800]
    assert list(LogScale.around(0.7, 230, begin=0, end=1).ticks()) == pytest.approx([0.1, 1, 10, 100, 1000])
    assert list(LinearScale(0, 95, 0, 1).time_ticks(10)) == [0, 10, 20, 30, 40, 50, 60, 70, 80, 90]
    assert (time_label(90, 120), time_label(90, 600)) == ("90", "1:30")
