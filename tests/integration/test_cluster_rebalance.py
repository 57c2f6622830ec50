"""A broker that is added gets its share by one command, under load; another says what is written where."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from quorate.client.replica_sizes import ReplicaOf, ReplicaSizes
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
        await every_replica_tells_its_size(drill)
    assert (proof.refused, proof.unknown) == (0, 0)
    assert proof.replicas == 12
    assert drill.id_of(newcomer) in {each["leader"] for each in loaded["partitions"]}
    assert loaded["records_per_s"] > 0
    assert loaded["sampled_records"] > 0


async def every_replica_tells_its_size(drill: Trial) -> None:
    """Which is how moves are known to be half-way."""
    topic = await drill.admin.describe_topic("ledger")
    brokers = {each.broker_id: each.address for each in (await drill.admin.describe_cluster()).brokers}
    wanted = {
        broker_id: [
            ReplicaOf(topic.topic_id, each.partition)
            for each in topic.partitions
            if broker_id in each.replicas
        ]
        for broker_id in brokers
    }
    async with ReplicaSizes({**brokers, 99: "127.0.0.1:1"}) as sizes:
        found = await sizes.ask({**wanted, 99: [ReplicaOf(topic.topic_id, 0)]})
    assert len(found) == 12, "and whoever does not answer is left out"
    for (_, replica), size_bytes in found.items():
        assert size_bytes == topic.partitions[replica.partition].size_bytes


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
