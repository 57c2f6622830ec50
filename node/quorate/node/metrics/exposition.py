"""Writes readings down for Prometheus: in its text format, or in OpenMetrics for who asks for it.

The formats are ``prometheus_client``'s. It writes a page in one go, which takes a quarter of a second for
10,000 partitions of groups, and all that time a broker would answer nobody. So it gets a hundred samples at a
time, and what it says around each such piece (the heading of the metric, the end of the page) is kept once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from enum import Enum
from itertools import islice
from typing import Final

from prometheus_client import Metric, generate_latest
from prometheus_client.openmetrics import exposition as openmetrics
from prometheus_client.registry import Collector

from quorate.core.metrics import BOUND_LABEL, BUCKET_SUFFIX, MetricSource, Reading

__all__ = ["Format", "write_page"]

#: about a millisecond
_SAMPLES_PER_TURN: Final = 100
_END: Final = b"# EOF\n"
_OPENMETRICS: Final = "application/openmetrics-text"


class Format(Enum):
    """Those that there are; the value is its content type."""

    TEXT = "text/plain; version=0.0.4; charset=utf-8"
    OPENMETRICS = openmetrics.CONTENT_TYPE_LATEST

    @classmethod
    def accepted(cls, accept: str) -> Format:
        """By the header of that name: OpenMetrics for whoever names it, and text for everybody else."""
        for each in accept.split(","):
            media_type, *parameters = (part.strip().lower() for part in each.split(";"))
            if media_type == _OPENMETRICS and "q=0" not in parameters:
                return cls.OPENMETRICS
        return cls.TEXT


async def write_page(sources: Iterable[MetricSource], form: Format) -> bytes:
    page = bytearray()
    for source in sources:
        for reading in source.read():
            for piece in _pieces(reading, form):
                page += piece
                await asyncio.sleep(0)
    if form is Format.OPENMETRICS:
        page += _END
    return bytes(page)


def _pieces(reading: Reading, form: Format) -> Iterator[bytes]:
    """A reading without samples is not mentioned at all."""
    samples = iter(reading.samples)
    is_first = True
    while some := list(islice(samples, _SAMPLES_PER_TURN)):
        metric = reading.metric
        family = Metric(metric.family, metric.about, metric.kind.value)
        for labels, value, suffix in some:
            names = (*metric.labels, BOUND_LABEL) if suffix == BUCKET_SUFFIX else metric.labels
            family.add_sample(metric.name + suffix, dict(zip(names, labels, strict=True)), value)
        piece = _written(family, form)
        yield piece if is_first else _without_heading(piece)
        is_first = False


def _written(family: Metric, form: Format) -> bytes:
    only = _Only(family)
    if form is Format.TEXT:
        return generate_latest(only)
    written: bytes = openmetrics.generate_latest(only)  # type: ignore[no-untyped-call]  # it has no types
    return written.removesuffix(_END)


def _without_heading(piece: bytes) -> bytes:
    """A line break within a label is escaped by now, so a line that begins with # is a heading."""
    while piece.startswith(b"#"):
        piece = piece.partition(b"\n")[2]
    return piece


class _Only(Collector):
    """One metric, as a collection of them."""

    def __init__(self, family: Metric) -> None:
        self._family = family

    def collect(self) -> Iterable[Metric]:
        return (self._family,)
