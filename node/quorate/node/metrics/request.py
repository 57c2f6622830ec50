"""Calls that this node serves, in numbers: by method, how many, how large, how long, and how they ended.

A call on its own, and each request of a stream that is answered by its number (producing and fetching), is
timed from when its handler has it until its answer leaves. Of other streams only messages are counted:
nothing says which of them answers which. A fetch waits for records, and a group's heartbeat for news: their
time says how quiet it is, not how slow. What is refused before a handler has it is an error without a time.

A client that is too fast is pushed back in two ways: its call is refused, which is an error by the name of
OVERLOADED, or its stream is not read on for a while, which is counted in seconds.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from quorate.core.instruments import Histogram, SizeHistogram, histogram_samples
from quorate.core.metrics import Metric, MetricKind, Reading, Sample
from quorate.core.transport import Method
from quorate.node.metrics.held_up import HeldUp
from quorate.rpc.traffic import MethodTraffic

__all__ = ["METRICS", "MethodMeter", "RequestMeter"]

SECONDS: Final = Metric(
    "quorate_request_seconds",
    MetricKind.HISTOGRAM,
    "How long requests took on this node, by how they ended: ok or error. Fetches wait for records, and "
    "heartbeats of groups for news.",
    ("method", "outcome"),
)
ERRORS: Final = Metric(
    "quorate_request_errors_total",
    MetricKind.COUNTER,
    "Requests that failed as a whole, by the code of the error; also those that were refused before anything "
    "was done for them, as OVERLOADED. CANCELLED: the caller had gone.",
    ("method", "code"),
)
RECEIVED: Final = Metric(
    "quorate_request_received_bytes",
    MetricKind.HISTOGRAM,
    "How large messages were that came in.",
    ("method",),
)
SENT: Final = Metric(
    "quorate_request_sent_bytes", MetricKind.HISTOGRAM, "How large messages were that went out.", ("method",)
)
HELD_UP_STREAMS: Final = Metric(
    "quorate_request_held_up_streams",
    MetricKind.GAUGE,
    "Streams that this node does not read at the moment, because what it holds for them, or for all, has "
    "reached a bound: their clients wait.",
    ("method",),
)
HELD_UP_SECONDS: Final = Metric(
    "quorate_request_held_up_seconds_total",
    MetricKind.COUNTER,
    "For how long such streams were not read, all of them together.",
    ("method",),
)

METRICS: Final = (SECONDS, ERRORS, RECEIVED, SENT, HELD_UP_STREAMS, HELD_UP_SECONDS)


class MethodMeter:
    """Of one method."""

    __slots__ = ("done", "errors", "failures", "held_up", "received", "sent")

    def __init__(self) -> None:
        self.done = Histogram()
        self.failures = Histogram()
        self.received = SizeHistogram()
        self.sent = SizeHistogram()
        #: by the code of the error, of which there are few
        self.errors: dict[str, int] = {}
        #: None: no stream, or one whose handler reads by itself, so that nobody sees when it does not
        self.held_up: HeldUp | None = None

    def failed(self, code: str, seconds: float) -> None:
        self.failures.observe(seconds)
        self.refused(code)

    def refused(self, code: str) -> None:
        """Nothing was done for it, so that took no time."""
        self.errors[code] = self.errors.get(code, 0) + 1


class RequestMeter:
    """Each method that the node offers has a meter from the beginning, so there are no more of them."""

    def __init__(self) -> None:
        self._methods: dict[str, MethodMeter] = {}

    def method(self, method: Method[Any, Any]) -> MethodMeter:
        return self._methods.setdefault(_label(method), MethodMeter())

    def of(self, method: Method[Any, Any]) -> MethodTraffic:
        """For the transport."""
        meter = self.method(method)
        return MethodTraffic(received=meter.received.observe, sent=meter.sent.observe, refused=meter.refused)

    async def look(self) -> None:
        """All is recorded already."""

    def read(self) -> Iterator[Reading]:
        methods = self._methods
        by_outcome: dict[tuple[str, ...], Histogram | SizeHistogram]
        by_outcome = {(name, "ok"): meter.done for name, meter in methods.items()}
        by_outcome |= {(name, "error"): meter.failures for name, meter in methods.items()}
        yield Reading(SECONDS, histogram_samples(by_outcome))
        yield Reading(
            ERRORS,
            [
                Sample((name, code), count)
                for name, meter in sorted(methods.items())
                for code, count in sorted(meter.errors.items())
            ],
        )
        yield Reading(RECEIVED, histogram_samples({(name,): each.received for name, each in methods.items()}))
        yield Reading(SENT, histogram_samples({(name,): each.sent for name, each in methods.items()}))
        held_up = [(name, each.held_up) for name, each in sorted(methods.items()) if each.held_up is not None]
        yield Reading(HELD_UP_STREAMS, [Sample((name,), each.streams) for name, each in held_up])
        yield Reading(HELD_UP_SECONDS, [Sample((name,), each.seconds) for name, each in held_up])


def _label(method: Method[Any, Any]) -> str:
    """As people call it: BrokerService/Produce."""
    return method.path.rpartition(".")[2]
