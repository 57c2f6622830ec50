"""The dashboards, from one source: Grafana's files are written by it, and checked to be what it writes."""

from __future__ import annotations

from typing import Final

from deploy.observability.dashboards.cluster import CLUSTER_DASHBOARD
from deploy.observability.dashboards.groups import GROUPS_DASHBOARD
from deploy.observability.dashboards.nodes import NODES_DASHBOARD
from deploy.observability.dashboards.writes import WRITES_DASHBOARD

__all__ = ["DASHBOARDS"]

DASHBOARDS: Final = (CLUSTER_DASHBOARD, WRITES_DASHBOARD, GROUPS_DASHBOARD, NODES_DASHBOARD)
