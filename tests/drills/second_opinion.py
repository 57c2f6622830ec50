"""The audit on Spark as a check of the checks of drills.

It reads the log from the cluster itself, while that is still up: what the drill's own reader has noted would
only tell whether both read the same notes alike.
"""

from __future__ import annotations

import asyncio
import importlib.util
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from quorate.chaos.drills.local_agent import LocalAgent
from quorate.chaos.report.drill_report import DrillReport

if TYPE_CHECKING:
    from quorate.pipeline.jobs.audit.comparison import AuditReport

__all__ = ["AuditedAgent"]

#: what looks at the same thing on both sides: names of checks, kinds of findings
_SAME: Final = {
    "lost-write": "lost",
    "duplicate": "duplicated",
    "nonmonotonic-send": "reordered",
    "phantom": "invented",
}
#: Here the checks look at what readers saw on the way as well, so they may find what the log shows no more.
_PART: Final = {"inconsistent-offsets": "misplaced", "aborted-read": "refused-yet-there"}
#: an offset in two places of one log: the checks ask each reader for it
_NEVER: Final = {"offset-twice"}


class AuditedAgent(LocalAgent):
    """Its cluster is audited when the drill is over and judged, before it is stopped."""

    #: of the report, and of the ledger in it; whoever makes the agent says it
    directory: Path
    _audited: AuditReport | None = None

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with super().running():
            yield
            if _why_not() is None:
                self._audited = await asyncio.to_thread(_audit, self.directory, self.bootstrap)

    def assert_same_opinion(self, report: DrillReport) -> None:
        """What the checks have found is what the audit has found, and nothing else.

        Last in a test: where nobody can be asked it is skipped, and says so.
        """
        if (reason := _why_not()) is not None:
            pytest.skip(f"all else is as it should be, and there is no second opinion: {reason}")
        audited = self._audited
        assert audited is not None, "the drill did not end as it should"
        found = {each.kind.value for each in audited.findings if each.count}
        kinds = {each.kind.value for each in audited.findings}
        assert kinds == {*_SAME.values(), *_PART.values(), *_NEVER}, "a kind that nobody compares"
        failed = {verdict.check for verdict in report.verdicts if not verdict.passed}
        assert found & set(_SAME.values()) == {_SAME[check] for check in failed & _SAME.keys()}, audited
        assert found & set(_PART.values()) <= {_PART[check] for check in failed & _PART.keys()}, audited
        assert not found & _NEVER, audited
        assert audited.acknowledged > 0
        assert audited.not_asked == 0, "nobody deletes records in these drills"


def _why_not() -> str | None:
    if importlib.util.find_spec("pyspark") is None:
        return "the extra spark is not installed"
    if shutil.which("java") is None:
        return "there is no java on the path"
    return None


def _audit(directory: Path, bootstrap: str) -> AuditReport:
    from quorate.pipeline.jobs.audit.job import run
    from quorate.pipeline.jobs.config.audit import AuditConfig, LogFrom

    small = (
        ("spark.sql.shuffle.partitions", "2"),
        ("spark.driver.defaultJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"),
    )
    return run(
        AuditConfig(
            ledger=str(directory),
            log_from=LogFrom.CLUSTER,
            bootstrap_servers=bootstrap,
            spark_master="local[2]",
            spark_conf=small,
        )
    )
