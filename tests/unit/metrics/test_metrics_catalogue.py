"""Every metric has a name by the rule, is in the catalogue, and stands in docs/metrics.md."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType

import pytest

from quorate.broker.metrics import broker, group
from quorate.core.metrics import Metric, MetricKind
from quorate.node.metrics import (
    change,
    cluster,
    controller,
    disk,
    event,
    loop,
    node,
    process,
    replica,
    request,
    throttle,
    topic,
)
from quorate.node.metrics.catalogue import CATALOGUE

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "metrics.md").read_text()
MODULES = (
    group, broker, topic, request, replica, throttle, change, cluster, controller, disk, node, loop, event,
)  # fmt: skip


def row(metric: Metric) -> str:
    labels = ", ".join(f"`{label}`" for label in metric.labels)
    return f"| `{metric.name}` | {metric.kind} | {labels} | {metric.about} |"


@pytest.mark.parametrize("metric", CATALOGUE, ids=lambda metric: metric.name)
def test_metric_is_documented(metric: Metric) -> None:
    assert row(metric) in PAGE.splitlines()


def test_documentation_names_no_metric_that_there_is_not() -> None:
    named = set(re.findall(r"\b(?:quorate|process)_[a-z_]+\b", PAGE))
    families = {re.sub("_(bucket|count|sum)$", "", name) for name in named}
    assert families == {metric.name for metric in CATALOGUE}


def test_names_are_unique() -> None:
    names = [metric.family for metric in CATALOGUE]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__.rpartition(".")[2])
def test_metrics_of_a_subject_are_named_by_its_file(module: ModuleType) -> None:
    subject = module.__name__.rpartition(".")[2]
    assert all(metric.name.startswith(f"quorate_{subject}_") for metric in module.METRICS)


@pytest.mark.parametrize("module", [*MODULES, process], ids=lambda module: module.__name__)
def test_every_metric_of_a_file_is_in_the_catalogue(module: ModuleType) -> None:
    declared = [value for value in vars(module).values() if isinstance(value, Metric)]
    assert set(declared) <= set(module.METRICS) <= set(CATALOGUE)


def test_every_file_of_metrics_is_looked_at_here() -> None:
    files = {
        path.stem
        for folder in ("broker/quorate/broker/metrics", "node/quorate/node/metrics")
        for path in (ROOT / folder).glob("*.py")
        if re.search(r"^METRICS: Final", path.read_text(), re.MULTILINE)
    }
    assert files == {module.__name__.rpartition(".")[2] for module in (*MODULES, process)}


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("lag_records", MetricKind.GAUGE),
        ("quorate_Lag", MetricKind.GAUGE),
        ("quorate_lag_", MetricKind.GAUGE),
        ("quorate_lag_total", MetricKind.GAUGE),
        ("quorate_lag", MetricKind.COUNTER),
        ("quorate_lag", MetricKind.INFO),
    ],
)
def test_name_that_breaks_the_rule_is_found_out_where_it_is_declared(name: str, kind: MetricKind) -> None:
    with pytest.raises(AssertionError):
        Metric(name, kind, "About.")
