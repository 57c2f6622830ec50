"""`quorate cluster rolling-restart` on real processes under load."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

from tests.integration.trials import Trial, trial

TIMEOUT_S = 120


async def rolling_restart(drill: Trial) -> tuple[int, str, str]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "quorate.console.main", "cluster", "rolling-restart"),
        *("--dir", drill.cluster.directory, "--output", "json"),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, error = await asyncio.wait_for(process.communicate(), TIMEOUT_S)
    assert process.returncode is not None
    return process.returncode, out.decode(), error.decode()


def pids(drill: Trial) -> dict[str, int | None]:
    return {node.name: node.process.pid if node.process else None for node in drill.cluster.nodes}


async def test_every_node_is_restarted_under_load_and_refused_where_a_partition_would_be_away(
    tmp_path: Path,
) -> None:
    topics = {"ledger": {"partitions": 3, "replication_factor": 3}}
    async with trial(tmp_path, topics, is_combined=True) as drill:
        await drill.until_whole()
        before = pids(drill)
        async with drill.load() as load:
            await load.acknowledges()
            status, out, error = await rolling_restart(drill)
            assert status == 0, error
            await load.acknowledges()
        after = pids(drill)
        assert {node["name"] for node in json.loads(out)["nodes"]} == set(before)
        assert not set(before.values()) & set(after.values()), "every process is a new one"
        proof = await drill.prove()
        assert (proof.refused, proof.unknown) == (0, 0)

        await drill.admin.create_topic("single", partitions=3, replication_factor=1)
        status, _, error = await rolling_restart(drill)
        assert status == 1
        assert json.loads(error.splitlines()[-1])["error"]["code"] == "UNSAFE_TO_RESTART"
        assert pids(drill) == after, "nothing was touched"
