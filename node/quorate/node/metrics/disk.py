"""The disks of a node in numbers: how much room is left, and how long a device takes.

The metadata of a controller may lie on a volume of their own, mounted on their directory within that of the
data: a node that is a broker, too, can then be helped when its data are full. Both are told then. Where there
is one volume it is told once, as that of the data, whatever lies on it: an alert is to be raised once.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from quorate.core.disk import Disk
from quorate.core.instruments import Histogram
from quorate.core.metrics import Metric, MetricKind, Reading, Sample
from quorate.metadata.raft.quorum_config import QUORUM_DIRECTORY_NAME

__all__ = ["METRICS", "DiskMeter"]

FREE: Final = Metric(
    "quorate_disk_free_bytes",
    MetricKind.GAUGE,
    "Room that is left on the volume of the data directory, and on that of the metadata if it is another.",
    ("volume",),
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
            yield Reading(FREE, list(self._room(self._disk)))
        yield Reading(FLUSH_SECONDS, self.flushes.samples(()))

    def _room(self, disk: Disk) -> Iterator[Sample]:
        metadata_dir = f"{self._data_dir}/{QUORUM_DIRECTORY_NAME}"
        try:
            yield Sample(("data",), disk.free_bytes(self._data_dir))
            if disk.file_system_id(metadata_dir) != disk.file_system_id(self._data_dir):
                yield Sample(("metadata",), disk.free_bytes(metadata_dir))
        except OSError:
            # There is no such directory, or not yet, or none any more: that is for others to report.
            return
