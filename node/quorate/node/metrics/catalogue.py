"""Every metric that there is. A new subject is a file of its own, and a line here and in docs/metrics.md."""

from __future__ import annotations

from typing import Final

from quorate.broker.metrics import broker, group
from quorate.core.metrics import Metric
from quorate.node.metrics import controller, node, process

__all__ = ["CATALOGUE"]

CATALOGUE: Final[tuple[Metric, ...]] = (
    *group.METRICS,
    *broker.METRICS,
    *node.METRICS,
    *controller.METRICS,
    *process.METRICS,
)
