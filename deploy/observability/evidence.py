"""docs/evidence/observability.jsonl and observability.md: runs of `make observability-test`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from deploy.test.run_records import Evidence, RunRecord
from quorate.chaos.evidence.record_lines import EVIDENCE_DIRECTORY

__all__ = ["EVIDENCE", "ObservabilityRun"]

_HEAD: Final = """\
# Evidence: alerts and dashboards

Written by `make observability-test ARGS=--record` from `observability.jsonl`, which has a line for each run
that was recorded, also for those that failed. Do not edit. A Prometheus scrapes a cluster of three real
processes under load and answers every query of the
[dashboards and alerts](../metrics.md#what-to-be-warned-by); then one of the three is
killed, and what must notice it has to.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservabilityRun(RunRecord):
    #: its version
    prometheus: str

    @property
    def facts(self) -> Sequence[tuple[str, str]]:
        return [("Prometheus", self.prometheus), ("machine", self.system)]


EVIDENCE: Final = Evidence(
    f"{EVIDENCE_DIRECTORY}/observability.jsonl",
    f"{EVIDENCE_DIRECTORY}/observability.md",
    _HEAD,
    ObservabilityRun,
)
