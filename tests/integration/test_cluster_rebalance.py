"""A broker that is added gets its share by one command, under load; another says what is written where."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from tests.integration.trials import Trial, trial


async def test_new_broker_gets_its_share_of_replicas_and_leaders_under_load(tmp_path: Path) -> None:
    topics = {"ledger": {"partitions": 6, "replication_factor": 2}}
    async with trial(tmp_path, topics, brokers=2, controllers=1) as drill:
        async with drill.load() as load:
            await load.acknowledges()
            newcomer = drill.cluster.add_broker()
            await drill.cluster.start([newcomer])
            proposed = await told(drill, "cluster", "rebalance")
            assert proposed["partitions"]
            done = await told(drill, "cluster", "rebalance", "--execute", "--at-a-time", "2")
            assert [each["after"]["replica_count"] for each in done["brokers"]] == [4, 4, 4]
            await load.acknowledges()
            assert (await told(drill, "cluster", "rebalance"))["partitions"] == [], "nothing is left to do"
            loaded = await told(drill, "topic", "describe", "ledger", "--load", "--interval", "0.5")
        proof = await drill.prove()
    assert (proof.refused, proof.unknown) == (0, 0)
    assert proof.replicas == 12
    assert drill.id_of(newcomer) in {each["leader"] for each in loaded["partitions"]}
    assert loaded["records_per_s"] > 0
    assert loaded["sampled_records"] > 0


async def told(drill: Trial, *arguments: str) -> Any:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "quorate.console.main", "--bootstrap", drill.cluster.bootstrap),
        *("--output", "json", *arguments),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, errors = await process.communicate()
    assert process.returncode == 0, errors.decode()
    return json.loads(out)
