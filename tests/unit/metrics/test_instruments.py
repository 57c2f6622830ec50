"""What is recorded as it happens comes out as a collector understands it."""

from __future__ import annotations

from bisect import bisect_left

import pytest
from prometheus_client.openmetrics import parser as openmetrics_parser
from prometheus_client.parser import text_string_to_metric_families

from quorate.core.instruments import LATENCY_BOUNDS_S, Histogram, SizeHistogram, histogram_samples
from quorate.core.metrics import Metric, MetricKind, Reading
from quorate.node.metrics.exposition import Format, write_page
from tests.unit.metrics.test_metrics_page import FakeSource

SECONDS = Metric("quorate_test_seconds", MetricKind.HISTOGRAM, "How long.", ("method",))


def buckets(histogram: Histogram | SizeHistogram) -> dict[str, float]:
    return {each.labels[-1]: each.value for each in histogram.samples(()) if each.suffix == "_bucket"}


def test_value_at_a_bound_is_counted_below_it_and_in_all_that_follow() -> None:
    histogram = Histogram((1.0, 2.0))
    for value in (0.5, 1.0, 1.5, 3.0):
        histogram.observe(value)
    assert buckets(histogram) == {"1.0": 2, "2.0": 3, "+Inf": 4}
    assert histogram.count == 4


def test_value_whose_place_is_known_is_counted_as_if_it_were_observed() -> None:
    searched, known = Histogram(), Histogram()
    for value in (0.0, 0.001, 0.3, 99.0):
        searched.observe(value)
        known.add(bisect_left(LATENCY_BOUNDS_S, value), value)
    assert list(known.samples(())) == list(searched.samples(()))


def test_bounds_ascend() -> None:
    assert list(LATENCY_BOUNDS_S) == sorted(set(LATENCY_BOUNDS_S))


def test_size_is_counted_below_the_bound_that_it_does_not_exceed() -> None:
    histogram = SizeHistogram()
    for size in (0, 255, 256, 1_023, 1_024, 1 << 30):
        histogram.observe(size)
    found = buckets(histogram)
    assert list(map(float, found)) == sorted(map(float, found))
    assert (found["255.0"], found["1023.0"], found["4095.0"], found["+Inf"]) == (2, 4, 5, 6)
    assert found["16777215.0"] == 5
    assert histogram.count == 6


def test_what_was_taken_stays_as_it_was() -> None:
    histogram = Histogram((1.0,))
    histogram.observe(0.5)
    taken = histogram.samples(())
    next(taken)
    histogram.observe(0.5)
    assert [each.value for each in taken] == [1, 1, 0.5]


def test_histogram_that_has_counted_nothing_is_not_told() -> None:
    used = Histogram((1.0,))
    used.observe(0.5)
    told = {each.labels[0] for each in histogram_samples({("used",): used, ("idle",): Histogram((1.0,))})}
    assert told == {"used"}


@pytest.mark.parametrize("form", list(Format), ids=lambda form: form.name)
async def test_collector_reads_a_histogram(form: Format) -> None:
    histogram = Histogram((0.1, 1.0))
    histogram.observe(0.05)
    histogram.observe(5.0)
    page = await write_page([FakeSource(Reading(SECONDS, histogram.samples(("Produce",))))], form)
    parse = (
        openmetrics_parser.text_string_to_metric_families
        if form is Format.OPENMETRICS
        else text_string_to_metric_families
    )
    [family] = parse(page.decode())
    assert (family.name, family.type) == ("quorate_test_seconds", "histogram")
    found = {(each.name, each.labels.get("le")): each.value for each in family.samples}
    assert found == {
        ("quorate_test_seconds_bucket", "0.1"): 1,
        ("quorate_test_seconds_bucket", "1.0"): 1,
        ("quorate_test_seconds_bucket", "+Inf"): 2,
        ("quorate_test_seconds_count", None): 2,
        ("quorate_test_seconds_sum", None): 5.05,
    }
