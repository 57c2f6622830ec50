"""`make observability-test` without a cluster: what it makes of what it sees, and that a run is recorded."""

from __future__ import annotations

from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest

from deploy.observability import live
from deploy.observability.evidence import EVIDENCE, ObservabilityRun
from deploy.test.commands import CannotTest
from deploy.test.run_records import StepRecord
from tests.unit.deploy.deploy_files import ROOT

PASSED = StepRecord("queries", "ask every query", None, 31.4, "cluster: 20 queries")
FAILED = StepRecord("kill", "kill a node", "QuorateNodeDown: not after 120 s", 121.0, "")


def run_of(*steps: StepRecord) -> ObservabilityRun:
    return ObservabilityRun(
        began="2026-01-02 03:04 UTC",
        commit="0123456789abcdef",
        is_clean=True,
        system="Linux, 2 cores",
        prometheus="3.5.0",
        steps=steps,
    )


def test_page_is_what_the_records_amount_to() -> None:
    assert (ROOT / EVIDENCE.page).read_text() == EVIDENCE.text(EVIDENCE.read(ROOT)), (
        "make observability-test with --record writes it"
    )


@pytest.mark.parametrize(("steps", "status"), [((PASSED,), 0), ((PASSED, FAILED), 1)])
def test_run_is_recorded_also_if_it_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steps: tuple[StepRecord, ...], status: int
) -> None:
    def ended(given: Coroutine[Any, Any, ObservabilityRun]) -> ObservabilityRun:
        given.close()
        return run_of(*steps)

    monkeypatch.setattr(live, "find_tool", lambda _: "prometheus")
    monkeypatch.setattr("asyncio.run", ended)
    monkeypatch.setattr(live, "ROOT", tmp_path)
    assert live.main([]) == status
    assert not (tmp_path / EVIDENCE.page).exists()
    assert live.main(["--record"]) == status
    assert EVIDENCE.read(tmp_path) == [run_of(*steps)]
    assert "| Prometheus | 3.5.0 |" in (tmp_path / EVIDENCE.page).read_text()


async def test_what_does_not_come_to_be_so_fails_the_step_and_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def missing() -> list[str]:
        return ["an empty panel"]

    async def nothing() -> list[str]:
        return []

    monkeypatch.setattr(live, "_PATIENCE_S", 0.0)
    assert await live._until("all of it", nothing) == "all of it"
    with pytest.raises(CannotTest, match=r"all of it: not after 0 s: .*an empty panel"):
        await live._until("all of it", missing)
