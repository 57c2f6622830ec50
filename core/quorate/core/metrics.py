"""What a node tells of itself in numbers: the seam between who knows them and how they are written down.

Whoever knows numbers is a *source*: it declares each ``Metric`` once, as a constant, and reads them when
somebody asks. How they get to that somebody, and in which format, is no concern of a source, so those of a
broker run in the simulator as everywhere.

Two things keep a look from hurting the node, whose work shares one loop with it:

- ``look`` comes first, and may take its time: what has to be asked of others, or counted, is gathered there.
- ``read`` gives what was gathered. Samples are taken a few at a time, with other work in between, so they
  must not rest on anything that changes.

Names are ``quorate_<subject>_<what>_<unit>``: a file for each subject, called like it; units in full and in
their base (seconds, bytes, records). A counter ends in ``_total``, and what only carries labels in ``_info``.

What is recorded as it happens, and not read when asked, is in ``quorate.core.instruments``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple, Protocol

__all__ = ["BOUND_LABEL", "BUCKET_SUFFIX", "Metric", "MetricKind", "MetricSource", "Reading", "Sample"]

_NAME: Final = re.compile(r"(?:quorate|process)(?:_[a-z][a-z0-9]*)+")
_LABEL: Final = re.compile(r"[a-z]+(?:_[a-z]+)*")


class MetricKind(StrEnum):
    """What may be done with the values."""

    #: goes up and down
    GAUGE = "gauge"
    #: only grows, until the process ends
    COUNTER = "counter"
    #: always 1; its labels are what is told
    INFO = "info"
    #: how many values were up to each bound, how many there were in all, and their sum
    HISTOGRAM = "histogram"


#: of a histogram's bucket: what it counts is not more than this
BOUND_LABEL: Final = "le"
BUCKET_SUFFIX: Final = "_bucket"

_SUFFIXES: Final = {MetricKind.COUNTER: "_total", MetricKind.INFO: "_info"}


@dataclass(frozen=True, slots=True)
class Metric:
    """One that exists, with or without values at the moment."""

    #: as it is asked for
    name: str
    kind: MetricKind
    #: one or more sentences, for the page and for the documentation
    about: str
    #: names of its labels
    labels: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        assert _NAME.fullmatch(self.name), self.name
        assert all(map(_LABEL.fullmatch, self.labels)), self.labels
        assert BOUND_LABEL not in self.labels
        for kind, suffix in _SUFFIXES.items():
            assert self.name.endswith(suffix) == (self.kind is kind), self.name

    @property
    def family(self) -> str:
        """The name without what its kind adds to it."""
        return self.name.removesuffix(_SUFFIXES.get(self.kind, ""))


class Sample(NamedTuple):
    #: in the order of the metric's labels; a bucket of a histogram has its bound behind them
    labels: tuple[str, ...]
    value: float
    #: of the name: which number of a histogram this is
    suffix: str = ""


class Reading(NamedTuple):
    """A metric with its values; none: nothing is known."""

    metric: Metric
    samples: Iterable[Sample]


class MetricSource(Protocol):
    async def look(self) -> None:
        """Somebody is about to read. Takes a few seconds at most, and raises nothing."""
        ...

    def read(self) -> Iterable[Reading]:
        """Each metric of the source once. What it gives is as it was found, however slowly it is taken."""
        ...
