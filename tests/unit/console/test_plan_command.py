"""``quorate plan``: two loads worked out by hand, what is refused, and that more load never needs less."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.console.main import main
from quorate.console.planning.capacity import Hardware, Plan, Workload, plan_capacity
from quorate.console.planning.explaining import lines
from quorate.console.planning.quantities import Rate

Capsys = pytest.CaptureFixture[str]

FIREHOSE = (
    *("--rate", "1M/s", "--size", "1KB", "--peak", "2x", "--replication", "3", "--retention", "7d"),
    *("--groups", "2", "--disk", "20TB", "--per-partition", "10MB/s"),
)
PEOPLE = (
    *("--users", "500M", "--events", "20/day", "--size", "500B", "--peak", "10x", "--replication", "3"),
    *("--retention", "7d", "--disk", "10TB", "--per-partition", "10k/s"),
)


PAGE = Path(__file__).resolve().parents[3] / "docs" / "capacity.md"


@pytest.mark.parametrize("options", [FIREHOSE, PEOPLE])
def test_page_about_capacity_shows_what_is_printed(capsys: Capsys, options: tuple[str, ...]) -> None:
    assert main(["plan", *options]) == 0
    printed = capsys.readouterr().out
    assert f"```\nquorate plan {' '.join(options)}\n```\n\n```\n{printed}```\n" in PAGE.read_text()


def planned(capsys: Capsys, *options: str) -> dict[str, Any]:
    assert main(["plan", *options, "--output", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert isinstance(document, dict)
    return document


def test_a_million_records_a_second(capsys: Capsys) -> None:
    found = planned(capsys, *FIREHOSE)
    assert found["average"]["in_bytes_per_second"] == 10**9
    assert found["average"]["written_bytes_per_second"] == 3 * 10**9
    assert found["average"]["out_bytes_per_second"] == 4 * 10**9
    assert round(found["retained_bytes"] / 10**12) == 605
    assert round(found["replicated_bytes"] / 10**15, 1) == 1.8
    assert found["brokers"]["bound_by"] == "disk"
    # About 90, and no more than 90 are too few.
    assert found["brokers"]["needs"]["disk"] == {"quotient": 90.72, "count": 91}
    assert found["brokers"]["count"] == 91
    assert (found["partitions"]["minimum"], found["partitions"]["advised"]) == (100, 200)


def test_half_a_billion_people(capsys: Capsys) -> None:
    found = planned(capsys, *PEOPLE)
    assert int(found["average"]["records_per_second"] / 1000) == 115
    assert int(found["peak"]["records_per_second"] / 10_000) == 115
    assert found["bytes_per_day"] == 5 * 10**12
    assert found["replicated_bytes"] == 105 * 10**12
    assert found["brokers"]["count"] == 11
    # 115 and three quarters.
    assert int(found["partitions"]["advised_needs"]["partition_rate"]["quotient"]) == 115
    assert found["partitions"]["advised"] == 116


def test_arithmetic_is_shown_with_what_was_assumed(capsys: Capsys) -> None:
    assert main(["plan", *FIREHOSE]) == 0
    out, error = capsys.readouterr()
    for shown in (
        "1 M/s x 1 KB",
        "1 GB/s x (2 groups + 2 followers)",
        "1.814 PB / 20 TB = 90.72",
        "the size of the disks binds",
        "100 minimum, 200 advised",
    ):
        assert shown in out
    assert "assumed: --disk-headroom 0% --network 10Gbit/s" in error
    assert "--disk-headroom 20% gives 114 brokers" in error


def test_rate_in_bytes_means_the_same(capsys: Capsys) -> None:
    in_bytes = planned(capsys, "--rate", "1GB/s", *FIREHOSE[2:])
    assert in_bytes["brokers"] == planned(capsys, *FIREHOSE)["brokers"]


@pytest.mark.parametrize(
    ("options", "bound"),
    [
        (("--network", "1Gbit/s", "--retention", "1min"), "network_out"),
        (("--network", "1Gbit/s", "--retention", "1min", "--groups", "0"), "network_in"),
        (("--disk-rate", "1MB/s", "--retention", "1min"), "disk_rate"),
        (("--retention", "1s", "--disk", "1PB", "--network", "1TB/s"), "replication"),
    ],
)
def test_what_binds_is_named(capsys: Capsys, options: tuple[str, ...], bound: str) -> None:
    assert planned(capsys, *FIREHOSE, *options)["brokers"]["bound_by"] == bound


def test_slow_consumers_need_more_partitions(capsys: Capsys) -> None:
    found = planned(capsys, *FIREHOSE, "--per-consumer", "1k/s")["partitions"]
    assert (found["minimum"], found["advised"], found["bound_by"]) == (1000, 2000, "consumer_rate")


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--rate", "fast", "--size", "1KB"), "--rate"),
        (("--rate", "1M/s", "--size", "big"), "--size"),
        (("--rate", "1M/s"), "--size"),
        (("--rate", "1M/s", "--size", "1KB", "--retention", "7"), "--retention"),
        (("--rate", "1M/s", "--size", "1KB", "--peak", "0.5"), "--peak"),
        (("--rate", "1M/s", "--size", "1KB", "--disk", "-1TB"), "--disk"),
        (("--rate", "1M/s", "--size", "1KB", "--disk", "20"), "--disk"),
        (("--rate", "1M/s", "--size", "1KB", "--network", "10k/s"), "--network"),
        (("--rate", "1M/s", "--size", "1KB", "--replication", "0"), "--replication"),
        (("--rate", "1M/s", "--size", "1KB", "--users", "5"), "--events"),
        (("--users", "5", "--events", "1MB/s", "--size", "1KB"), "--events"),
        (("--rate", "1M/s", "--users", "5", "--events", "1/s", "--size", "1KB"), "--rate"),
        (("--rate", "9999999999999999P/s", "--size", "1KB"), "--rate"),
        (("--size", "1KB"), "--rate"),
    ],
)
def test_bad_input_is_wrong_usage_and_names_the_option(
    capsys: Capsys, options: tuple[str, ...], told: str
) -> None:
    assert main(["plan", *options]) == 2
    error = capsys.readouterr().err
    assert told in error
    assert "Traceback" not in error


# -- whatever the load

_POSITIVE = st.fractions(min_value=Fraction(1, 1000), max_value=10**15, max_denominator=1000)
_RATES = st.builds(Rate, _POSITIVE, st.booleans())
_WORKLOADS = st.builds(
    Workload,
    records_per_second=_POSITIVE,
    record_bytes=_POSITIVE,
    peak_factor=st.fractions(min_value=1, max_value=100, max_denominator=1000),
    replication=st.integers(1, 32),
    retention_s=_POSITIVE,
    groups=st.integers(0, 100),
)
_HARDWARE = st.builds(
    Hardware,
    disk_bytes=_POSITIVE,
    network_bytes_per_second=_POSITIVE,
    per_partition=_RATES,
    per_consumer=st.none() | _RATES,
    disk_bytes_per_second=st.none() | _POSITIVE,
    disk_headroom=st.fractions(min_value=0, max_value=Fraction(99, 100), max_denominator=100),
)


def _needed(plan: Plan) -> tuple[Fraction | int, ...]:
    return (
        plan.brokers.count,
        plan.partitions.minimum,
        plan.partitions.advised,
        plan.replicated_bytes,
        plan.peak.in_bytes,
        plan.peak.written_bytes,
        plan.peak.out_bytes,
    )


@given(
    _WORKLOADS,
    _HARDWARE,
    st.sampled_from(
        ["records_per_second", "record_bytes", "peak_factor", "replication", "retention_s", "groups"]
    ),
    st.integers(1, 5),
)
def test_more_load_never_needs_less(workload: Workload, hardware: Hardware, name: str, more: int) -> None:
    heavier = replace(workload, **{name: getattr(workload, name) + more})
    pairs = zip(
        _needed(plan_capacity(workload, hardware)),
        _needed(plan_capacity(heavier, hardware)),
        strict=True,
    )
    assert all(less <= greater for less, greater in pairs)


@given(_WORKLOADS, _HARDWARE)
def test_what_is_planned_suffices_and_one_broker_less_does_not(
    workload: Workload, hardware: Hardware
) -> None:
    plan = plan_capacity(workload, hardware)
    assert plan.brokers.count >= workload.replication
    assert plan.disk_used_share <= 1 - hardware.disk_headroom
    assert plan.peak_in_per_broker <= hardware.network_bytes_per_second
    assert plan.peak_out_per_broker <= hardware.network_bytes_per_second
    assert plan.partitions.minimum <= plan.partitions.advised
    assert any(need.quotient > plan.brokers.count - 1 for need in plan.brokers.needs)


@given(_WORKLOADS, _HARDWARE, st.integers(1, 1000))
def test_better_hardware_never_needs_more(workload: Workload, hardware: Hardware, factor: int) -> None:
    better = replace(
        hardware,
        disk_bytes=hardware.disk_bytes * factor,
        network_bytes_per_second=hardware.network_bytes_per_second * factor,
        per_partition=replace(hardware.per_partition, per_second=hardware.per_partition.per_second * factor),
    )
    before, after = plan_capacity(workload, hardware), plan_capacity(workload, better)
    assert after.brokers.count <= before.brokers.count
    assert after.partitions.advised <= before.partitions.advised


@given(_WORKLOADS, _HARDWARE)
def test_every_plan_can_be_shown(workload: Workload, hardware: Hardware) -> None:
    assert all(all(line) for line in lines(plan_capacity(workload, hardware), rate_from="as given"))
