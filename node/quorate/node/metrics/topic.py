"""Topics in numbers: how long a write takes until it is acknowledged, which is what degrades first.

The number of topics that are told of is bounded. A topic gets its numbers with the first write to it that is
acknowledged: what clients merely name is worth none. Those of a topic that was deleted are forgotten.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Final

from quorate.core.instruments import Histogram, histogram_samples
from quorate.core.metrics import Metric, MetricKind, Reading, Sample
from quorate.v1 import broker_pb2

__all__ = ["METRICS", "TopicMeter"]

PRODUCE_SECONDS: Final = Metric(
    "quorate_topic_produce_seconds",
    MetricKind.HISTOGRAM,
    "How long it took from when this broker had a write until it was acknowledged as asked; each partition "
    "of a request counts.",
    ("topic",),
)
PRODUCED_RECORDS: Final = Metric(
    "quorate_topic_produced_records_total",
    MetricKind.COUNTER,
    "Records that were acknowledged, but for those with acks=0.",
    ("topic",),
)
PRODUCE_ERRORS: Final = Metric(
    "quorate_topic_produce_errors_total",
    MetricKind.COUNTER,
    "Writes to a partition that were refused, or whose outcome is unknown, by the code of the error. Without "
    "a topic: those to topics of which nothing is told.",
    ("topic", "code"),
)
LEFT_OUT: Final = Metric(
    "quorate_topic_left_out_topics",
    MetricKind.GAUGE,
    "Topics that were written to and of which this broker tells nothing: metrics.topics.max is reached.",
)

METRICS: Final = (PRODUCE_SECONDS, PRODUCED_RECORDS, PRODUCE_ERRORS, LEFT_OUT)

#: of those that are left out, how many are told apart
_LEFT_OUT_MAX: Final = 100_000


class _Topic:
    __slots__ = ("errors", "records", "seconds")

    def __init__(self) -> None:
        self.seconds = Histogram()
        self.records = 0
        self.errors: dict[str, int] = {}


class TopicMeter:
    def __init__(self, topics_max: int) -> None:
        self._topics_max = topics_max
        self._topics: dict[str, _Topic] = {}
        self._left_out: set[str] = set()
        #: of writes to all others
        self._errors: dict[str, int] = {}
        #: those that there are; None: it is not known
        self._existing: Callable[[], Collection[str] | None] = lambda: None

    def attach(self, existing: Callable[[], Collection[str] | None]) -> None:
        """``existing``: names of all topics, None while they are not known."""
        self._existing = existing

    def answered(
        self, results: Sequence[broker_pb2.ProducePartitionResult], seconds: float, place: int
    ) -> None:
        """What is about to leave, for a request that came so long ago; ``place``: of such latencies."""
        # By number: where an iteration ends protobuf raises, which costs as much as all the rest. Without a
        # range, which would have to be made: most answers have one partition.
        number, count = 0, len(results)
        while number < count:
            result = results[number]
            number += 1
            name = result.topic
            topic = self._topics.get(name)
            next_offset = result.next_offset
            # Only who was acknowledged has one; but for acks=0 there need not be an error otherwise.
            if not next_offset and result.HasField("error"):
                errors = self._errors if topic is None else topic.errors
                code = result.error.code
                errors[code] = errors.get(code, 0) + 1
                continue
            if topic is None:
                topic = self._begin(name)
                if topic is None:
                    continue
            topic.seconds.add(place, seconds)
            topic.records += next_offset - result.base_offset

    def _begin(self, name: str) -> _Topic | None:
        if len(self._topics) >= self._topics_max:
            if len(self._left_out) < _LEFT_OUT_MAX:
                self._left_out.add(name)
            return None
        topic = self._topics[name] = _Topic()
        self._left_out.discard(name)
        return topic

    async def look(self) -> None:
        existing = self._existing()
        if existing is not None:
            self._left_out = {name for name in self._left_out if name in existing}
            for name in [name for name in self._topics if name not in existing]:
                del self._topics[name]

    def read(self) -> Iterator[Reading]:
        topics = self._topics
        yield Reading(
            PRODUCE_SECONDS, histogram_samples({(name,): each.seconds for name, each in topics.items()})
        )
        yield Reading(
            PRODUCED_RECORDS, [Sample((name,), topic.records) for name, topic in sorted(topics.items())]
        )
        errors = {"": self._errors} | {name: topic.errors for name, topic in sorted(topics.items())}
        yield Reading(
            PRODUCE_ERRORS,
            [
                Sample((name, code), count)
                for name, codes in errors.items()
                for code, count in sorted(codes.items())
            ],
        )
        yield Reading(LEFT_OUT, [Sample((), len(self._left_out))])
