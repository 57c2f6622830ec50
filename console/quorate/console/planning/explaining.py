"""A plan as people read it: each figure beside the arithmetic that leads to it."""

from __future__ import annotations

from fractions import Fraction
from typing import Final, NamedTuple

from quorate.console.planning.capacity import Flows, Need, Plan
from quorate.console.planning.quantities import (
    Rate,
    show_bytes,
    show_count,
    show_duration,
    show_quotient,
)

__all__ = ["BOUNDS", "Line", "advice", "lines"]

#: what each bound is called
BOUNDS: Final = {
    "disk": "the size of the disks",
    "disk_rate": "the speed of the disks",
    "network_in": "the network, inwards",
    "network_out": "the network, outwards",
    "replication": "the number of replicas",
    "partition_rate": "what a partition can take",
    "consumer_rate": "what a consumer can read",
}
#: A disk that is fuller has no room for a broker's share while that is down, nor for a bad day.
_COMFORTABLE_SHARE: Final = Fraction(8, 10)


class Line(NamedTuple):
    what: str
    arithmetic: str
    result: str


def lines(plan: Plan, *, rate_from: str) -> list[Line]:
    """``rate_from``: how the rate of records came about."""
    return [
        *_flow_lines(plan, rate_from),
        *_broker_lines(plan),
        *_partition_lines(plan),
        *_per_broker_lines(plan),
    ]


def advice(plan: Plan) -> list[str]:
    """What the figures do not say by themselves."""
    found = []
    if plan.disk_used_share > _COMFORTABLE_SHARE:
        needed = plan.replicated_bytes / (plan.hardware.disk_bytes * _COMFORTABLE_SHARE)
        roomy = max(plan.brokers.count, Need("disk", needed).count)
        found.append(
            f"the disks would be {float(plan.disk_used_share):.0%} full; "
            f"--disk-headroom 20% gives {roomy:,} brokers"
        )
    if plan.brokers.count == plan.workload.replication > 1:
        found.append("every broker holds everything: while one is away, no replica can be made elsewhere")
    if plan.workload.replication < 3:
        found.append(
            "with fewer than three replicas, a broker that is away stops writes or leaves a single copy"
        )
    return found


def _flow_lines(plan: Plan, rate_from: str) -> list[Line]:
    load, average, peak = plan.workload, plan.average, plan.peak
    per_second = f"{show_bytes(average.in_bytes)}/s"
    readers = f"({_counted(load.groups, 'group')} + {_counted(load.replication - 1, 'follower')})"
    return [
        Line("records", rate_from, f"{show_count(average.records)}/s"),
        Line("records at peak", f"x {show_quotient(load.peak_factor)}", f"{show_count(peak.records)}/s"),
        Line("in", f"{show_count(average.records)}/s x {show_bytes(load.record_bytes)}", per_second),
        Line(
            "written", f"{per_second} x {load.replication} replicas", f"{show_bytes(average.written_bytes)}/s"
        ),
        Line("out", f"{per_second} x {readers}", f"{show_bytes(average.out_bytes)}/s"),
        Line("at peak", f"x {show_quotient(load.peak_factor)}", _in_written_out(peak)),
        Line("a day", f"{per_second} x 86,400 s", show_bytes(plan.bytes_per_day)),
        Line("kept", f"{per_second} x {show_duration(load.retention_s)}", show_bytes(plan.retained_bytes)),
        Line(
            "kept, replicated",
            f"{show_bytes(plan.retained_bytes)} x {load.replication} replicas",
            show_bytes(plan.replicated_bytes),
        ),
    ]


def _in_written_out(flows: Flows) -> str:
    figures = (flows.in_bytes, flows.written_bytes, flows.out_bytes)
    return ", ".join(f"{show_bytes(figure)}/s" for figure in figures)


def _broker_lines(plan: Plan) -> list[Line]:
    by = [
        Line(
            f"brokers by {need.bound.replace('_', ' ')}",
            f"{_broker_quotient(plan, need.bound)} = {show_quotient(need.quotient)}",
            f"{need.count:,}",
        )
        for need in plan.brokers.needs
    ]
    return [*by, Line("brokers", f"{BOUNDS[plan.brokers.bound_by]} binds", f"{plan.brokers.count:,}")]


def _broker_quotient(plan: Plan, bound: str) -> str:
    hardware = plan.hardware
    if bound == "disk":
        usable = hardware.disk_bytes * (1 - hardware.disk_headroom)
        return f"{show_bytes(plan.replicated_bytes)} / {show_bytes(usable)}"
    if bound == "replication":
        return "each replica on a broker of its own"
    flow = plan.peak.out_bytes if bound == "network_out" else plan.peak.written_bytes
    speed = hardware.disk_bytes_per_second if bound == "disk_rate" else hardware.network_bytes_per_second
    assert speed is not None
    return f"{show_bytes(flow)}/s at peak / {show_bytes(speed)}/s"


def _partition_lines(plan: Plan) -> list[Line]:
    hardware, found = plan.hardware, plan.partitions
    rates = {"partition_rate": hardware.per_partition, "consumer_rate": hardware.per_consumer}
    by = []
    for when, flows, needs in (
        ("average", plan.average, found.minimum_needs),
        ("peak", plan.peak, found.advised_needs),
    ):
        for need in needs:
            rate = rates[need.bound]
            assert rate is not None
            arithmetic = f"{_shown_flow(flows, rate)} / {_shown_rate(rate)} = {show_quotient(need.quotient)}"
            what = f"partitions at {when}, by {need.bound.replace('_', ' ')}"
            by.append(Line(what, arithmetic, f"{need.count:,}"))
    verdict = f"{found.minimum:,} minimum, {found.advised:,} advised"
    return [*by, Line("partitions", f"{BOUNDS[found.bound_by]} binds", verdict)]


def _per_broker_lines(plan: Plan) -> list[Line]:
    count = f"{plan.brokers.count:,}"
    disk = f"{show_bytes(plan.disk_bytes_per_broker)} ({float(plan.disk_used_share):.0%} of the disk)"
    replicas = f"{plan.partitions.advised:,} x {plan.workload.replication} / {count}"
    return [
        Line("disk per broker", f"{show_bytes(plan.replicated_bytes)} / {count}", disk),
        Line(
            "network in per broker",
            f"{show_bytes(plan.peak.written_bytes)}/s at peak / {count}",
            f"{show_bytes(plan.peak_in_per_broker)}/s",
        ),
        Line(
            "network out per broker",
            f"{show_bytes(plan.peak.out_bytes)}/s at peak / {count}",
            f"{show_bytes(plan.peak_out_per_broker)}/s",
        ),
        Line("replicas per broker", replicas, show_quotient(plan.replicas_per_broker)),
    ]


def _counted(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def _shown_flow(flows: Flows, rate: Rate) -> str:
    return f"{show_bytes(flows.in_bytes) if rate.is_bytes else show_count(flows.records)}/s"


def _shown_rate(rate: Rate) -> str:
    return f"{show_bytes(rate.per_second) if rate.is_bytes else show_count(rate.per_second)}/s"
