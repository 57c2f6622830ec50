"""A report as a drill makes it, of made-up operations."""

from __future__ import annotations

from quorate.chaos.checks.verdict import Verdict
from quorate.chaos.history.entries import Outcome, Sent
from quorate.chaos.report.availability import availability_of
from quorate.chaos.report.drill_report import DrillReport, Mark, ReportedFault
from quorate.core.ids import Offset, PartitionId, TopicName, TopicPartition

__all__ = ["HELD", "LOST", "acknowledged", "report_of"]

PARTITION = TopicPartition(TopicName("ledger"), PartitionId(0))
HELD = Verdict("lost-write", "lost-write", (), 10)
LOST = Verdict("lost-write", "lost-write", ("<b>offset 7</b> is gone",), 10, found=3)


def acknowledged(number: int, *, begun_s: float, latency_s: float) -> Sent:
    return Sent(
        number,
        b"",
        "writer",
        number,
        PARTITION,
        "all",
        begun_s,
        begun_s + latency_s,
        Outcome.ACKNOWLEDGED,
        Offset(number),
    )


def report_of(*verdicts: Verdict, drill: str = "leader-kill", seconds: float = 20.0) -> DrillReport:
    """A hundred records a second, but for two seconds in the middle."""
    sent = [
        acknowledged(number, begun_s=1000 + number / 100, latency_s=0.005)
        for number in range(int(seconds * 100))
        if not 8 <= number / 100 < 10
    ]
    return DrillReport(
        drill=drill,
        shows="a leader & its end",
        seed=7,
        command=f"quorate drill run {drill} --seed=7",
        began="2026-01-02 03:04:05 UTC",
        seconds=seconds,
        rounds=1,
        verdicts=verdicts or (Verdict("lost-write", "lost-write", (), len(sent)),),
        availability=availability_of(sent, began_s=1000, ended_s=1000 + seconds),
        faults=[ReportedFault("kill -9 of a leader", "node-1", 8.0, 10.0, 11.0, 2.0)],
        marks=[Mark(8.5, "leader elected", "ledger-0: node-2, epoch 2")],
        lanes=["leader elected", "ISR shrunk"],
        outcomes={"acknowledged": len(sent), "refused": 0, "unknown": 0},
        records_read=len(sent),
        figures={"orders": "3 of 36"},
        surroundings={"quorate": "1.0"},
    )
