"""Events of a node's log in numbers, whether or not they are written down.

Some things are known to nobody but the log: it is told of them once, as they happen. Here they are counted,
before anything is left out for being repeated or below the level that is written.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from quorate.core.log_flood import FloodGuard
from quorate.core.metrics import Metric, MetricKind, Reading, Sample
from quorate.storage import PartitionKey

__all__ = ["METRICS", "EventMeter"]

LOGGED: Final = Metric(
    "quorate_event_logged_total",
    MetricKind.COUNTER,
    "Events of the log from info up, by name; also those that were not written down.",
    ("level", "event"),
)
SUPPRESSED: Final = Metric(
    "quorate_event_suppressed_total",
    MetricKind.COUNTER,
    "Events that were not written down because the same one was repeated.",
)
UNWRITTEN: Final = Metric(
    "quorate_event_unwritten_total",
    MetricKind.COUNTER,
    "Events that standard error did not take: its disk is full, or nobody reads it any more.",
)
DAMAGE_FOUND: Final = Metric(
    "quorate_event_damage_found_total",
    MetricKind.COUNTER,
    "Damaged batches that were found in logs of partitions; none of what is damaged is served.",
)
DAMAGE_REPAIRED: Final = Metric(
    "quorate_event_damage_repaired_total",
    MetricKind.COUNTER,
    "Damaged logs that were dropped, to be fetched anew from the leader.",
)

METRICS: Final = (LOGGED, SUPPRESSED, UNWRITTEN, DAMAGE_FOUND, DAMAGE_REPAIRED)

#: Known from the beginning: a series that appears with its first event does not grow by it, and alerts that
#: ask for growth would be silent until the second one.
_COUNTED_FROM_0: Final = (
    ("warning", "disk_full"),
    ("warning", "disk_has_room"),
    ("error", "storage_error"),
    ("error", "sync_failed"),
    ("error", "wall_clock_jumped"),
)
#: There are not half as many names in the sources.
_NAMES_MAX: Final = 500
_DAMAGED_MAX: Final = 100_000


class EventMeter:
    def __init__(self, flood: FloodGuard) -> None:
        self._flood = flood
        self._counts: dict[tuple[str, str], int] = dict.fromkeys(_COUNTED_FROM_0, 0)
        self._unwritten = 0
        self._damaged: set[str] = set()
        self._found = 0
        self._repaired = 0

    def logged(self, level: str, fields: Mapping[str, Any]) -> None:
        """An event, with its name and all that it says."""
        name = str(fields.get("event"))
        key = (level, name)
        if key in self._counts or len(self._counts) < _NAMES_MAX:
            self._counts[key] = self._counts.get(key, 0) + 1
        if name == "log_damaged":
            self._note_damage(str(fields.get("path")))
        elif name == "log_reset":
            self._note_reset(str(fields.get("partition")))

    def not_written(self) -> None:
        """An event that was to be."""
        self._unwritten += 1

    def _note_damage(self, path: str) -> None:
        self._found += 1
        for part in path.split("/"):
            key = PartitionKey.parse(part)
            if key is not None and len(self._damaged) < _DAMAGED_MAX:
                self._damaged.add(f"{key.topic}-{key.partition}")

    def _note_reset(self, partition: str) -> None:
        """Logs are also reset that are merely too far behind."""
        if partition in self._damaged:
            self._damaged.discard(partition)
            self._repaired += 1

    async def look(self) -> None:
        """All is counted already."""

    def read(self) -> Iterator[Reading]:
        yield Reading(LOGGED, [Sample(key, count) for key, count in sorted(self._counts.items())])
        yield Reading(SUPPRESSED, [Sample((), self._flood.suppressed)])
        yield Reading(UNWRITTEN, [Sample((), self._unwritten)])
        yield Reading(DAMAGE_FOUND, [Sample((), self._found)])
        yield Reading(DAMAGE_REPAIRED, [Sample((), self._repaired)])
