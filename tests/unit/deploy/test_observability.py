"""Alerts and dashboards speak of metrics that there are; every alert has a test and a page that helps."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.observability import prometheus_rule
from deploy.observability.dashboards import DASHBOARDS
from deploy.observability.dashboards.__main__ import contents
from quorate.core.metrics import MetricKind
from quorate.node.metrics.catalogue import CATALOGUE
from tools.check_alerts import find_tool

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


STATS = [
    panel for text in contents().values() for panel in json.loads(text)["panels"] if panel["type"] == "stat"
]


@pytest.mark.parametrize("panel", STATS, ids=lambda panel: panel["title"])
def test_a_number_is_what_is_so_now_and_not_the_last_that_was_told(panel: dict[str, Any]) -> None:
    for target in panel["targets"]:
        assert target["instant"] is True
        assert target["range"] is False


def test_one_active_controller_is_green_and_neither_none_nor_two() -> None:
    [panel] = [each for each in STATS if each["title"] == "Active controllers"]
    steps = [
        (step["color"], step["value"]) for step in panel["fieldConfig"]["defaults"]["thresholds"]["steps"]
    ]
    assert steps == [("red", None), ("green", 1), ("red", 2)]


def test_the_cluster_is_seen_to_be_ill_when_nobody_tells_anything(tmp_path: Path) -> None:
    """What stands where all controllers, or all nodes, are gone; promtool is asked, as Grafana would ask."""
    promtool = find_tool("promtool")
    if promtool is None:
        pytest.skip("there is no promtool: `make check` builds it where Go is installed")
    asked = {
        panel["title"]: panel["targets"][0]["expr"].replace("$cluster", ".*")
        for panel in STATS
        if panel["title"] in ("Active controllers", "Nodes that do not answer", "Brokers without room")
    }
    well = 'quorate_controller_active{cluster="c", instance="1"}'
    gone = {
        "Active controllers": [('{cluster="c"}', 0.0)],
        "Nodes that do not answer": [("{}", 2.0)],
        "Brokers without room": [("{}", 0.0)],
    }
    nobody = {
        "Active controllers": [("{}", 0.0)],
        "Nodes that do not answer": [("{}", 0.0)],
        "Brokers without room": [("{}", 0.0)],
    }
    up = [
        {"series": f'up{{job="quorate", cluster="c", instance="{number}"}}', "values": "1 0x20"}
        for number in (1, 2)
    ]
    two = [
        {"series": f'quorate_controller_active{{cluster="{cluster}", instance="1"}}', "values": "1x20"}
        for cluster in ("c", "d")
    ]
    healthy = {"Active controllers": [('{cluster="c"}', 1.0), ('{cluster="d"}', 1.0)]}
    stopped = [{"series": well, "values": "1 stale"}, *up]
    cases = [(stopped, gone), ([], nobody), (two, healthy)]
    tests = [
        {
            "interval": "1m",
            "input_series": series,
            "promql_expr_test": [
                {
                    "expr": asked[title],
                    "eval_time": "15m",
                    "exp_samples": [{"labels": labels, "value": value} for labels, value in samples],
                }
                for title, samples in expected.items()
            ],
        }
        for series, expected in cases
    ]
    path = tmp_path / "dashboards.yaml"
    path.write_text(yaml.safe_dump({"rule_files": [], "evaluation_interval": "1m", "tests": tests}))
    answer = subprocess.run([promtool, "test", "rules", str(path)], capture_output=True, text=True)
    assert answer.returncode == 0, answer.stdout + answer.stderr


def test_rules_of_the_operator_are_what_their_source_says() -> None:
    assert prometheus_rule.TARGET.read_text() == prometheus_rule.written()


def test_rules_of_the_operator_that_are_not_current_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(prometheus_rule, "TARGET", tmp_path / "prometheus-rule.yaml")
    assert prometheus_rule.main(["--check"]) == 1
    assert "prometheus-rule.yaml is not current" in capsys.readouterr().out
    assert prometheus_rule.main([]) == 0
    assert prometheus_rule.main(["--check"]) == 0


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
