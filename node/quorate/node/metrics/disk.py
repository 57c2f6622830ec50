"""The disk of a node in numbers: how much room is left, and how long the device takes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from quorate.core.disk import Disk
from quorate.core.instruments import Histogram
from quorate.core.metrics import Metric, MetricKind, Reading, Sample

__all__ = ["METRICS", "DiskMeter"]

FREE: Final = Metric(
    "quorate_disk_free_bytes",
    MetricKind.GAUGE,
    "Room that is left on the file system of the data directory.",
)
FLUSH_SECONDS: Final = Metric(
    "quorate_disk_flush_seconds",
    MetricKind.HISTOGRAM,
    "How long it took to have the content of a file on the device, waiting for others included.",
)

METRICS: Final = (FREE, FLUSH_SECONDS)


class DiskMeter:
    def __init__(self, data_dir: str) -> None:
        self._data_dir = data_dir
        self._disk: Disk | None = None
        #: to be told of every flush
        self.flushes = Histogram()

    def attach(self, disk: Disk) -> None:
        self._disk = disk

    async def look(self) -> None:
        """The system knows at once."""

    def read(self) -> Iterator[Reading]:
        if self._disk is not None:
            try:
                yield Reading(FREE, [Sample((), self._disk.free_bytes(self._data_dir))])
            except OSError:
                # There is no directory yet, or none any more: that is for others to report.
                yield Reading(FREE, [])
        yield Reading(FLUSH_SECONDS, self.flushes.samples(()))
