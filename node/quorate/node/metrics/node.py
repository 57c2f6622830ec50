"""A node in numbers: which one it is, and whether it does all that it is there for."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import version
from typing import Final

from quorate.core.clock import Clock
from quorate.core.ids import BrokerId
from quorate.core.metrics import Metric, MetricKind, Reading, Sample
from quorate.node.node import Node

__all__ = ["METRICS", "NodeMetrics"]

INFO: Final = Metric(
    "quorate_node_info",
    MetricKind.INFO,
    "Which node this is: its number, its roles, and the version of Quorate that it runs.",
    ("node_id", "roles", "version"),
)
READY: Final = Metric(
    "quorate_node_ready", MetricKind.GAUGE, "1 while /readyz says that it is ready, else 0."
)

TIME: Final = Metric(
    "quorate_node_time_seconds",
    MetricKind.GAUGE,
    "What this node's clock says, since 1970: beside the time of the scrape it shows a clock that is wrong. "
    "A page may be a second old.",
)

METRICS: Final = (INFO, READY, TIME)


class NodeMetrics:
    def __init__(self, node_id: BrokerId, node: Node, clock: Clock) -> None:
        self._node = node
        self._clock = clock
        roles = {"controller": node.controller, "broker": node.broker}
        named = ",".join(name for name, role in roles.items() if role is not None)
        self._labels = (str(node_id), named, version("quorate"))
        self._is_ready = False

    async def look(self) -> None:
        self._is_ready = not await self._node.missing()

    def read(self) -> Iterator[Reading]:
        yield Reading(INFO, [Sample(self._labels, 1)])
        yield Reading(READY, [Sample((), self._is_ready)])
        yield Reading(TIME, [Sample((), self._clock.wall_ms() / 1000)])
