"""What a dashboard is made of, and how Grafana wants it written down."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

__all__ = ["Dashboard", "Panel", "Query", "Row", "written"]

_COLUMNS: Final = 24
_STAT_HEIGHT: Final = 4
_GRAPH_HEIGHT: Final = 8
_DATASOURCE: Final = {"type": "prometheus", "uid": "prometheus"}


@dataclass(frozen=True, slots=True)
class Query:
    expression: str
    legend: str = ""
    #: on a cluster that is well there may be nothing to show
    may_be_empty: bool = False


@dataclass(frozen=True, slots=True)
class Panel:
    title: str
    queries: Sequence[Query]
    #: as Grafana calls it
    unit: str = "short"
    about: str = ""
    #: one number, red from this on; None: a graph
    red_from: float | None = None
    #: one number, red below this; with ``red_from`` green only in between
    red_below: float | None = None
    #: a number that is neither good nor bad
    is_number: bool = False

    @property
    def is_stat(self) -> bool:
        return self.is_number or self.red_from is not None or self.red_below is not None


@dataclass(frozen=True, slots=True)
class Row:
    title: str
    panels: Sequence[Panel]


@dataclass(frozen=True, slots=True)
class Dashboard:
    #: of its file, and of its address
    name: str
    title: str
    rows: Sequence[Row]
    #: labels that can be chosen beside the cluster, and the metric that has them
    variables: dict[str, str] = field(default_factory=dict)

    def queries(self) -> list[Query]:
        return [query for row in self.rows for panel in row.panels for query in panel.queries]


def written(dashboard: Dashboard) -> dict[str, Any]:
    return {
        "uid": f"quorate-{dashboard.name}",
        "title": f"Quorate: {dashboard.title}",
        "tags": ["quorate"],
        "editable": False,
        "schemaVersion": 39,
        "time": {"from": "now-1h", "to": "now"},
        "refresh": "30s",
        "timezone": "browser",
        "links": [
            {
                "type": "dashboards",
                "tags": ["quorate"],
                "asDropdown": True,
                "title": "Quorate",
                "tooltip": "",
                "icon": "external link",
                "targetBlank": False,
                "keepTime": True,
                "includeVars": True,
            }
        ],
        "templating": {
            "list": [
                _variable("cluster", "quorate_node_info"),
                *(_variable(label, metric) for label, metric in dashboard.variables.items()),
            ]
        },
        "panels": _panels(dashboard.rows),
    }


def _variable(label: str, metric: str) -> dict[str, Any]:
    selector = metric if label == "cluster" else f'{metric}{{cluster=~"$cluster"}}'
    return {
        "name": label,
        "type": "query",
        "datasource": _DATASOURCE,
        "query": {"query": f"label_values({selector}, {label})", "refId": label},
        "refresh": 2,
        "includeAll": True,
        # Also what has no such label: not every collector gives one to the cluster.
        "allValue": ".*",
        "multi": True,
        "current": {"text": "All", "value": "$__all"},
        "sort": 1,
    }


def _panels(rows: Sequence[Row]) -> list[dict[str, Any]]:
    panels: list[dict[str, Any]] = []
    top = 0
    for row in rows:
        panels.append(
            {
                "id": len(panels) + 1,
                "type": "row",
                "title": row.title,
                "collapsed": False,
                "gridPos": {"x": 0, "y": top, "w": _COLUMNS, "h": 1},
                "panels": [],
            }
        )
        top += 1
        left = height = 0
        for panel in row.panels:
            width, own_height = (4, _STAT_HEIGHT) if panel.is_stat else (12, _GRAPH_HEIGHT)
            if left + width > _COLUMNS:
                left, top, height = 0, top + height, 0
            place = {"x": left, "y": top, "w": width, "h": own_height}
            panels.append({"id": len(panels) + 1, "gridPos": place, **_panel(panel)})
            left, height = left + width, max(height, own_height)
        top += height
    return panels


def _panel(panel: Panel) -> dict[str, Any]:
    defaults: dict[str, Any] = {"unit": panel.unit, "min": 0}
    if panel.is_stat:
        defaults["thresholds"] = {"mode": "absolute", "steps": _steps(panel)}
    else:
        defaults["custom"] = {"fillOpacity": 10, "showPoints": "never"}
    return {
        "type": "stat" if panel.is_stat else "timeseries",
        "title": panel.title,
        "description": panel.about,
        "datasource": _DATASOURCE,
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "options": _STAT_OPTIONS if panel.is_stat else _GRAPH_OPTIONS,
        "targets": [
            {
                "refId": chr(ord("A") + number),
                "datasource": _DATASOURCE,
                "expr": query.expression,
                "legendFormat": query.legend,
                # A number is what is so now: the last one of the hour that is shown would stay green when
                # nobody tells any more.
                **({"instant": True, "range": False} if panel.is_stat else {}),
            }
            for number, query in enumerate(panel.queries)
        ],
    }


def _steps(panel: Panel) -> list[dict[str, Any]]:
    if panel.is_number:
        return [{"color": "blue", "value": None}]
    steps: list[dict[str, Any]] = [{"color": "green", "value": None}]
    if panel.red_below is not None:
        steps = [{"color": "red", "value": None}, {"color": "green", "value": panel.red_below}]
    if panel.red_from is not None:
        steps.append({"color": "red", "value": panel.red_from})
    return steps


_STAT_OPTIONS: Final = {
    "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
    "colorMode": "background",
    "graphMode": "none",
}
_GRAPH_OPTIONS: Final = {
    "legend": {"displayMode": "table", "placement": "right", "calcs": ["lastNotNull", "max"]},
    "tooltip": {"mode": "multi", "sort": "desc"},
}
