"""Drills on a cluster that somebody runs: it goes on afterwards, also if the drill itself is killed."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from quorate.chaos.report.file_names import HISTORY_FILE, PAGE_FILE
from quorate.client import AsyncAdmin
from quorate.console.main import main
from quorate.node.local_cluster import LocalCluster

Capsys = pytest.CaptureFixture[str]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    """As `quorate up` leaves it."""
    directory = str(tmp_path / "cluster")
    assert main(["up", "--dir", directory, "--combined", "--port=0", "--detach"]) == 0
    found = LocalCluster(directory)
    try:
        yield found
    finally:
        asyncio.run(found.kill(*found.names))


async def _topics(cluster: LocalCluster) -> list[str]:
    async with AsyncAdmin(cluster.bootstrap) as admin:
        return [each.name for each in await admin.list_topics()]


def test_cluster_goes_on_after_a_drill_on_it_and_after_one_that_was_killed(
    cluster: LocalCluster, capsys: Capsys, tmp_path: Path
) -> None:
    run = ["drill", "run", "leader-kill", "--dir", cluster.directory, "--seed=1"]
    capsys.readouterr()

    # One that ends by itself leaves the cluster as it was.
    status = main([*run, "--minutes=0", f"--report={tmp_path / 'whole'}", "--output=json"])
    [document] = json.loads(capsys.readouterr().out)
    assert status == 0, document["checks"]
    assert [fault["kind"] for fault in document["faults"]] == ["kill -9 of a leader"]
    assert (tmp_path / "whole" / PAGE_FILE).exists()
    assert all(node.is_running for node in cluster.nodes)
    assert asyncio.run(_topics(cluster)) == []

    # One that is killed leaves its ledger, and topics that can be asked about.
    _killed_in_the_middle(run, tmp_path / "killed")
    assert os.listdir(tmp_path / "killed") == [HISTORY_FILE]
    asyncio.run(cluster.start())
    check = ["drill", "check", str(tmp_path / "killed"), "--output=json"]
    assert main(check) == 1
    assert "the cluster has to be asked" in capsys.readouterr().err
    status = main([*check, "--live", f"--bootstrap={cluster.bootstrap}"])
    said = capsys.readouterr()
    assert said.out, said.err
    checks = {each["check"]: each for each in json.loads(said.out)}
    assert status == 0, checks
    assert checks["lost-write"]["examined"] > 50
    assert checks["unseen"]["examined"] > 50


def _killed_in_the_middle(run: list[str], report: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "quorate.console.main", *run, f"--report={report}"],
        stderr=subprocess.PIPE,
        text=True,
    ) as drill:
        assert drill.stderr is not None
        for line in drill.stderr:
            if line.startswith("kill -9 of a leader"):
                break
        drill.kill()
