"""The audit on Spark as a check of the checks of drills.

Nobody is asked where there is no Spark or no Java.
"""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from quorate.chaos.report.drill_report import DrillReport

if TYPE_CHECKING:
    from quorate.pipeline.jobs.audit.comparison import AuditReport

__all__ = ["assert_same_opinion"]

#: what looks at the same thing on both sides: names of checks, kinds of findings
_SAME = {
    "lost-write": "lost",
    "duplicate": "duplicated",
    "nonmonotonic-send": "reordered",
    "phantom": "invented",
}


def assert_same_opinion(report: DrillReport, directory: Path) -> None:
    """What the checks have found in a drill is what the audit finds in its ledger, and nothing else."""
    if importlib.util.find_spec("pyspark") is None or shutil.which("java") is None:
        return
    audited = _audit(directory)
    found = {each.kind.value for each in audited.findings if each.count}
    failed = {verdict.check for verdict in report.verdicts if not verdict.passed}
    assert found & set(_SAME.values()) == {_SAME[check] for check in failed & _SAME.keys()}, audited
    assert audited.acknowledged > 0


def _audit(directory: Path) -> AuditReport:
    from quorate.pipeline.jobs.audit.job import run
    from quorate.pipeline.jobs.config.audit import AuditConfig, LogFrom

    small = (
        ("spark.sql.shuffle.partitions", "2"),
        ("spark.driver.defaultJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"),
    )
    return run(
        AuditConfig(
            ledger=str(directory), log_from=LogFrom.HISTORY, spark_master="local[2]", spark_conf=small
        )
    )
