"""docs/evidence/kubernetes.jsonl and kubernetes.md: runs of `make k8s-test`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from deploy.test.run_records import Evidence, RunRecord
from quorate.chaos.evidence.record_lines import EVIDENCE_DIRECTORY

__all__ = ["EVIDENCE", "KubernetesRun"]

_HEAD: Final = """\
# Evidence: on a real Kubernetes

Written by `make k8s-test ARGS="… --record"` from [kubernetes.jsonl](kubernetes.jsonl), which has a line for
each run that was recorded, also for those that failed. Do not edit. What the steps do, what has to hold in
each, and how to run them on a cluster of your own: [the test](../../deploy/k8s/test/README.md).

Two producers and a reader work from a pod of their own for as long as a step lasts. After each step every
record that was acknowledged since the first one is looked for at its offset, and everything else is checked
that [drills](../checks.md) check.
"""
#: than a failover
_MORE: Final = "; in `cut` besides what `replica.lag.time.max.ms` says, in `all` until the pods are back"


@dataclass(frozen=True, slots=True, kw_only=True)
class KubernetesRun(RunRecord):
    #: as the API server names itself
    kubernetes: str
    image: str
    #: how long a partition may acknowledge nothing
    failover_s: float
    #: from the first manifest until all six pods are ready
    up_s: float

    @property
    def facts(self) -> Sequence[tuple[str, str]]:
        allowed = f"{self.failover_s:g} s (`--failover {self.failover_s:g}`){_MORE}"
        return [
            ("Kubernetes", self.kubernetes),
            ("image", self.image),
            ("machine", self.system),
            ("longest wait that is allowed", allowed),
            ("three controllers and three brokers ready after", f"{self.up_s:.0f} s"),
        ]


EVIDENCE: Final = Evidence(
    f"{EVIDENCE_DIRECTORY}/kubernetes.jsonl", f"{EVIDENCE_DIRECTORY}/kubernetes.md", _HEAD, KubernetesRun
)
