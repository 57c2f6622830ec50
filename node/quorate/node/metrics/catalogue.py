"""Every metric that there is. A new subject is a file of its own, and a line here and in docs/metrics.md."""

from __future__ import annotations

from typing import Final

from quorate.broker.metrics import broker, group
from quorate.core.metrics import Metric
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

__all__ = ["CATALOGUE"]

CATALOGUE: Final[tuple[Metric, ...]] = (
    *topic.METRICS,
    *request.METRICS,
    *group.METRICS,
    *broker.METRICS,
    *replica.METRICS,
    *throttle.METRICS,
    *change.METRICS,
    *cluster.METRICS,
    *controller.METRICS,
    *disk.METRICS,
    *node.METRICS,
    *loop.METRICS,
    *event.METRICS,
    *process.METRICS,
)
