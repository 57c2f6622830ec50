"""The process of a node in numbers, under the names that every Prometheus client library uses.

From /proc, as ``prometheus_client`` reads it; where there is none, nothing is told.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from prometheus_client import ProcessCollector

from quorate.core.metrics import Metric, MetricKind, Reading, Sample

__all__ = ["METRICS", "ProcessMetrics"]

METRICS: Final = (
    Metric("process_cpu_seconds_total", MetricKind.COUNTER, "Processor time that the process has used."),
    Metric("process_resident_memory_bytes", MetricKind.GAUGE, "Memory of the process that is in RAM."),
    Metric("process_virtual_memory_bytes", MetricKind.GAUGE, "Addresses that the process has reserved."),
    Metric("process_start_time_seconds", MetricKind.GAUGE, "When the process was started, since 1970."),
    Metric("process_open_fds", MetricKind.GAUGE, "File descriptors that are open."),
    Metric("process_max_fds", MetricKind.GAUGE, "File descriptors that may be open at once."),
)


class ProcessMetrics:
    def __init__(self) -> None:
        # Not registered with prometheus_client's own registry, which nobody reads here.
        self._collector = ProcessCollector(registry=None)

    async def look(self) -> None:
        """Nothing to be done before."""

    def read(self) -> Iterator[Reading]:
        found = {
            sample.name: sample.value for family in self._collector.collect() for sample in family.samples
        }
        for metric in METRICS:
            if metric.name in found:
                yield Reading(metric, [Sample((), found[metric.name])])
