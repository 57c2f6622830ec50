"""Expressions for Prometheus, with as few words as possible.

Every one is about what is chosen on the dashboard: ``%`` stands for the clusters, and ``TOPICS``, ``GROUPS``
and ``NODES`` for the clusters and what is chosen among them.
"""

from __future__ import annotations

from typing import Final

from deploy.observability.dashboards.panels import Query

__all__ = ["GROUPS", "NODES", "TOPICS", "q", "quantile", "rate"]

GROUPS: Final = "GROUPS"
NODES: Final = "NODES"
TOPICS: Final = "TOPICS"

_CLUSTER: Final = 'cluster=~"$cluster"'
_SELECTORS: Final = {
    GROUPS: f'{_CLUSTER}, group=~"$group"',
    NODES: f'{_CLUSTER}, instance=~"$instance"',
    TOPICS: f'{_CLUSTER}, topic=~"$topic"',
    "%": _CLUSTER,
}


def q(expression: str, legend: str = "", *, may_be_empty: bool = False) -> Query:
    for word, selector in _SELECTORS.items():
        expression = expression.replace(word, selector)
    return Query(expression, legend, may_be_empty)


def quantile(share: float, metric: str, *by: str, only: str = "%") -> str:
    """Of a histogram: what so large a share of the values does not exceed."""
    labels = ", ".join((*by, "le"))
    rates = f"rate({metric}_bucket{{{only}}}[$__rate_interval])"
    return f"histogram_quantile({share}, sum by ({labels}) ({rates}))"


def rate(metric: str, *by: str, only: str = "%") -> str:
    return f"sum by ({', '.join(by)}) (rate({metric}{{{only}}}[$__rate_interval]))"
