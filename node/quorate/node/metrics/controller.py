"""The controller of a node in numbers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from quorate.core.metrics import Metric, MetricKind, Reading, Sample
from quorate.node.node import Node

__all__ = ["METRICS", "ControllerMetrics"]

ACTIVE: Final = Metric(
    "quorate_controller_active",
    MetricKind.GAUGE,
    "1 while this node is the active controller, as far as it knows, else 0. Not there without that role.",
)

METRICS: Final = (ACTIVE,)


class ControllerMetrics:
    def __init__(self, node: Node) -> None:
        self._node = node

    async def look(self) -> None:
        """Nothing has to be gathered."""

    def read(self) -> Iterator[Reading]:
        # It is gone when the node stops, before the node is.
        controller = self._node.controller
        if controller is not None:
            yield Reading(ACTIVE, [Sample((), controller.is_active)])
