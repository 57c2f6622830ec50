"""verdicts.json: the page's tables for programs."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from quorate.chaos.checks.verdict import Verdict
from quorate.chaos.report.drill_report import DrillReport

__all__ = ["verdict_document", "verdicts_document", "verdicts_text"]


def verdicts_document(report: DrillReport) -> dict[str, Any]:
    availability = report.availability
    return {
        "drill": report.drill,
        "seed": report.seed,
        "passed": report.passed,
        "command": report.command,
        "began": report.began,
        "seconds": round(report.seconds, 3),
        "rounds": report.rounds,
        "outcomes": dict(report.outcomes),
        "records_read": report.records_read,
        "longest_gap_s": round(availability.longest_gap_s, 3) if availability.times_s else None,
        "latency_ms": {"p50": availability.p50_ms, "p99": availability.p99_ms},
        "checks": [verdict_document(verdict) for verdict in report.verdicts],
        "faults": [asdict(fault) for fault in report.faults],
        "untimed_faults": dict(report.untimed_faults),
        "events": [asdict(mark) for mark in report.marks],
        "figures": dict(report.figures),
        "surroundings": dict(report.surroundings),
    }


def verdict_document(verdict: Verdict) -> dict[str, Any]:
    return {
        "check": verdict.check,
        "anomaly": verdict.anomaly,
        "passed": verdict.passed,
        "examined": verdict.examined,
        "found": verdict.found,
        "findings": list(verdict.findings),
        "figures": dict(verdict.figures),
    }


def verdicts_text(report: DrillReport) -> str:
    return json.dumps(verdicts_document(report), indent=2, ensure_ascii=False) + "\n"
