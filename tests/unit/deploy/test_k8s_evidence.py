"""docs/evidence/kubernetes.md is what docs/evidence/kubernetes.jsonl amounts to, and so is each such page."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from deploy.k8s.test.evidence import EVIDENCE, KubernetesRun
from deploy.test.run_records import StepRecord
from tests.unit.deploy.deploy_files import ROOT

PASSED = StepRecord("kill", "delete a pod", None, 31.4, "900 acknowledged records")
FAILED = StepRecord("roll", "restart", "a partition | of two\nlines", 60.0, "")
RUN = KubernetesRun(
    began="2026-01-02 03:04 UTC",
    commit="0123456789abcdef",
    is_clean=True,
    kubernetes="v1.33.0",
    image="built from this commit",
    system="Linux, 2 cores",
    failover_s=20.0,
    up_s=44.0,
    steps=(PASSED,),
)


def test_page_is_what_the_records_amount_to() -> None:
    assert (ROOT / EVIDENCE.page).read_text() == EVIDENCE.text(EVIDENCE.read(ROOT)), (
        "make k8s-test with --record writes it"
    )


def test_run_that_failed_is_kept_and_stands_beside_the_later_ones(tmp_path: Path) -> None:
    EVIDENCE.record(tmp_path, replace(RUN, steps=(PASSED, FAILED)))
    EVIDENCE.record(tmp_path, RUN)
    assert len((tmp_path / EVIDENCE.records).read_text().splitlines()) == 2
    assert EVIDENCE.read(tmp_path) == [replace(RUN, steps=(PASSED, FAILED)), RUN]
    text = (tmp_path / EVIDENCE.page).read_text()
    assert "| 2026-01-02 03:04 UTC | `0123456789` | 1 of 2 | roll |" in text
    assert "| 2026-01-02 03:04 UTC | `0123456789` | 1 of 1 | - |" in text
    assert "| `kill` | delete a pod | passed | 31 | 900 acknowledged records |" in text


def test_trouble_does_not_break_the_table() -> None:
    assert "**failed**: a partition / of two lines | 60 |" in EVIDENCE.text([replace(RUN, steps=(FAILED,))])
