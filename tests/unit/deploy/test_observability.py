"""Alerts and dashboards speak of metrics that there are; every alert has a test and a page that helps."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.observability.dashboards import DASHBOARDS
from deploy.observability.dashboards.__main__ import contents
from quorate.core.metrics import MetricKind
from quorate.node.metrics.catalogue import CATALOGUE

ROOT = Path(__file__).parents[3]
PROMETHEUS = ROOT / "deploy" / "observability" / "prometheus"
RUNBOOKS = ROOT / "docs" / "runbooks"
RULES: list[dict[str, Any]] = [
    rule
    for path in sorted((PROMETHEUS / "rules").glob("*.yaml"))
    for group in yaml.safe_load(path.read_text())["groups"]
    for rule in group["rules"]
]
SERIES = {
    metric.name + part: metric
    for metric in CATALOGUE
    for part in (("_bucket", "_count", "_sum") if metric.kind is MetricKind.HISTOGRAM else ("",))
}
#: that Prometheus and those who configure it add
ADDED = {"cluster", "instance", "job", "le"}
#: Grafana's names of them. It takes any other word for one, too, and then neither scales nor rounds.
UNITS = {"short", "s", "bytes", "Bps", "percentunit", "ops", "reqps", "count:rec/s"}


def series_of(expression: str) -> set[str]:
    return set(re.findall(r"\b(?:quorate|process)_[a-z_]+\b", expression))


def labels_of(expression: str) -> set[str]:
    """Those that are asked for or grouped by."""
    grouped = {
        label.strip() for found in re.findall(r"by \(([^)]*)\)", expression) for label in found.split(",")
    }
    return (grouped | set(re.findall(r"([a-z_]+)=~?\"", expression))) - ADDED - {""}


def expressions() -> list[str]:
    return [rule["expr"] for rule in RULES] + [
        query.expression for dashboard in DASHBOARDS for query in dashboard.queries()
    ]


@pytest.mark.parametrize("expression", expressions())
def test_query_asks_for_series_and_labels_that_there_are(expression: str) -> None:
    series = series_of(expression)
    assert series <= SERIES.keys()
    known = {label for name in series for label in SERIES[name].labels}
    assert labels_of(expression) <= known


@pytest.mark.parametrize("expression", expressions())
def test_counter_is_never_shown_as_it_is_but_where_it_counts_from_the_start(expression: str) -> None:
    for name in series_of(expression):
        if SERIES[name].kind in (MetricKind.COUNTER, MetricKind.HISTOGRAM):
            is_rate = re.search(rf"(?:rate|increase)\({name}", expression)
            assert is_rate or name.startswith("quorate_event_")


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_alert_says_how_bad_it_is_and_what_to_do(rule: dict[str, Any]) -> None:
    assert rule["alert"].startswith("Quorate")
    assert rule["labels"]["severity"] in ("critical", "warning")
    assert set(rule["annotations"]) == {"summary", "description", "runbook"}
    page = ROOT / rule["annotations"]["runbook"]
    assert page.parent == RUNBOOKS
    text = page.read_text()
    assert f"`{rule['alert']}`" in text
    assert "**What to do" in text
    assert "**What it means.**" in text
    assert f"`{rule['alert']}`" in (RUNBOOKS / "README.md").read_text()


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_alert_is_seen_to_fire_in_a_test(rule: dict[str, Any]) -> None:
    fired = {
        case["alertname"]
        for path in (PROMETHEUS / "rules_tests").glob("*.yaml")
        for test in yaml.safe_load(path.read_text())["tests"]
        for case in test["alert_rule_test"]
        if case.get("exp_alerts")
    }
    assert rule["alert"] in fired


def test_every_runbook_belongs_to_an_alert() -> None:
    named = {Path(rule["annotations"]["runbook"]).name for rule in RULES}
    assert {page.name for page in RUNBOOKS.glob("*.md")} == named | {"README.md"}


def test_runbooks_and_their_index_name_alerts_that_there_are() -> None:
    named = {
        name for page in RUNBOOKS.glob("*.md") for name in re.findall(r"`(Quorate\w+)`", page.read_text())
    }
    assert named == {rule["alert"] for rule in RULES}


def test_runbooks_name_metrics_that_there_are() -> None:
    named = {name for page in RUNBOOKS.glob("*.md") for name in series_of(page.read_text())}
    assert named <= SERIES.keys()


def test_dashboards_are_what_their_source_says() -> None:
    written = contents()
    assert {path.name for path in next(iter(written)).parent.iterdir()} == {path.name for path in written}
    for path, text in written.items():
        assert path.read_text() == text


def test_units_of_panels_are_known_to_grafana() -> None:
    units = {panel.unit for dashboard in DASHBOARDS for row in dashboard.rows for panel in row.panels}
    assert units <= UNITS


@pytest.mark.parametrize("path", contents(), ids=lambda path: path.stem)
def test_panels_have_places_of_their_own(path: Path) -> None:
    panels = json.loads(path.read_text())["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        own = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not own & taken
        taken |= own
