"""A drill of a peer finds what a peer does, and its evidence says it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from quorate.chaos.history.history import History
from quorate.chaos.peers.evidence import PeerRecord, append_record, read_records, record_of
from quorate.chaos.peers.evidence_page import EVIDENCE_PAGE, evidence_page, write_evidence_page
from quorate.chaos.peers.peer_drill import Load, PeerReport, drill_peer
from tests.unit.chaos_peers.fake_peer import FakePeer

LOAD = Load(records_per_s=20_000, partitions=2, calm_s=0.01)
ROUNDS = 2


async def drilled(peer: FakePeer) -> PeerReport:
    return await drill_peer(peer, History(), seed=1, rounds=ROUNDS, load=LOAD, tell=lambda _: None)


def recorded(report: PeerReport) -> PeerRecord:
    return record_of(report, recorded_at="2001-02-03T04:05Z", commit="abc", is_clean=True, system="a machine")


async def test_a_peer_that_keeps_everything_passes_every_check() -> None:
    peer = FakePeer()
    report = await drilled(peer)
    assert report.violations == []
    assert report.rounds == peer.kills == ROUNDS
    assert not peer.is_up
    assert report.outcomes["acknowledged"] == report.committed > 0
    examined = {verdict.check: verdict.examined for verdict in report.verdicts}
    assert examined["lost-write"] == report.committed
    assert examined["unseen"] == report.committed


async def test_a_peer_that_loses_acknowledged_records_is_found_out() -> None:
    report = await drilled(FakePeer(loses=3))
    assert "lost-write" in {verdict.check for verdict in report.violations}


async def test_checks_that_look_inside_a_cluster_are_left_out() -> None:
    checks = {verdict.check for verdict in (await drilled(FakePeer())).verdicts}
    assert {"lost-write", "duplicate", "poll-skip"} <= checks
    assert not {"replicas-differ", "unclean-election"} & checks


async def test_a_record_comes_back_from_the_file_as_it_was(tmp_path: Path) -> None:
    records = [recorded(await drilled(FakePeer(loses=loses))) for loses in (0, 3)]
    for record in records:
        append_record(tmp_path, record)
    assert read_records(tmp_path) == records
    write_evidence_page(tmp_path)
    assert (tmp_path / EVIDENCE_PAGE).read_text() == evidence_page(records)


def test_evidence_that_cannot_be_read_is_not_skipped_over(tmp_path: Path) -> None:
    path = tmp_path / "docs" / "evidence" / "peers.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text('{"name": "half of one"}\n')
    with pytest.raises(ValueError, match=r"peers\.jsonl, line 1"):
        read_records(tmp_path)


async def test_the_page_adds_up_drills_and_shows_violations() -> None:
    clean = recorded(await drilled(FakePeer()))
    lossy = replace(recorded(await drilled(FakePeer(loses=3))), name="Lossy")
    page = evidence_page([clean, clean, lossy])
    assert f"| Fake 1.0 | 2 | {2 * ROUNDS} | {2 * clean.committed:,} |" in page
    lost = lossy.checks["lost-write"]
    kept = f"0 of {2 * clean.checks['lost-write'].examined:,}"
    assert f"| `lost-write` | {kept} | **{lost.found:,}** of {lost.examined:,} |" in page
    assert f"- violation: `lost-write`: {lost.findings[0]}" in page


def test_a_page_without_records_says_so() -> None:
    assert "Nothing is recorded yet." in evidence_page([])
