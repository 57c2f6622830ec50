"""A plan as programs read it: base units (bytes, seconds, records) and stable keys."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from quorate.console.planning.capacity import Flows, Need, Plan
from quorate.console.planning.explaining import advice, lines

__all__ = ["plan_document"]


def plan_document(plan: Plan, *, rate_from: str, assumed: Sequence[str]) -> dict[str, Any]:
    """``rate_from``: how the rate of records came about; ``assumed``: options left at their default."""
    return {
        "average": _flows_document(plan.average),
        "peak": _flows_document(plan.peak),
        "bytes_per_day": _number(plan.bytes_per_day),
        "retained_bytes": _number(plan.retained_bytes),
        "replicated_bytes": _number(plan.replicated_bytes),
        "brokers": {
            "count": plan.brokers.count,
            "bound_by": plan.brokers.bound_by,
            "needs": _needs_document(plan.brokers.needs),
        },
        "partitions": {
            "minimum": plan.partitions.minimum,
            "advised": plan.partitions.advised,
            "bound_by": plan.partitions.bound_by,
            "minimum_needs": _needs_document(plan.partitions.minimum_needs),
            "advised_needs": _needs_document(plan.partitions.advised_needs),
        },
        "per_broker": {
            "disk_bytes": _number(plan.disk_bytes_per_broker),
            "disk_used_ratio": _number(plan.disk_used_share),
            "peak_network_in_bytes_per_second": _number(plan.peak_in_per_broker),
            "peak_network_out_bytes_per_second": _number(plan.peak_out_per_broker),
            "replicas": _number(plan.replicas_per_broker),
        },
        "arithmetic": [line._asdict() for line in lines(plan, rate_from=rate_from)],
        "advice": advice(plan),
        "assumed": list(assumed),
    }


def _flows_document(flows: Flows) -> dict[str, Any]:
    return {
        "records_per_second": _number(flows.records),
        "in_bytes_per_second": _number(flows.in_bytes),
        "written_bytes_per_second": _number(flows.written_bytes),
        "out_bytes_per_second": _number(flows.out_bytes),
    }


def _needs_document(needs: Sequence[Need]) -> dict[str, Any]:
    return {need.bound: {"quotient": _number(need.quotient), "count": need.count} for need in needs}


def _number(value: Fraction) -> int | float:
    return value.numerator if value.denominator == 1 else float(value)
