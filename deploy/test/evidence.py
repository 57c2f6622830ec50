"""docs/evidence/deployments.jsonl and deployments.md: runs of `make deploy-test`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from deploy.test.run_records import Evidence, RunRecord
from quorate.chaos.evidence.record_lines import EVIDENCE_DIRECTORY

__all__ = ["EVIDENCE", "ContainersRun"]

_HEAD: Final = """\
# Evidence: deployments in containers

Written by `make deploy-test ARGS=--record` from [deployments.jsonl](deployments.jsonl), which has a line for
each run that was recorded, also for those that failed. Do not edit. What is brought up and broken, and how to
do that yourself: [deployment](../../deploy/README.md#tried-for-real). Kubernetes has [its own](kubernetes.md)
page.

Two producers and a reader work from outside of the containers while these are killed and restarted. A proof
looks for every record that was acknowledged at its offset, on every replica, and checks all else that
[drills](../checks.md) check.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainersRun(RunRecord):
    #: of the engine, and of compose, as they name themselves
    engine: str
    compose: str

    @property
    def facts(self) -> Sequence[tuple[str, str]]:
        return [("engine", self.engine), ("compose", self.compose), ("machine", self.system)]


EVIDENCE: Final = Evidence(
    f"{EVIDENCE_DIRECTORY}/deployments.jsonl", f"{EVIDENCE_DIRECTORY}/deployments.md", _HEAD, ContainersRun
)
