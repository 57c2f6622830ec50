"""A cluster whose nodes speak through the lean transport: its clients, with grpcio, cannot tell."""

from __future__ import annotations

from pathlib import Path

from quorate.client import AsyncConsumer, AsyncProducer
from quorate.client.transport import client_transport
from quorate.core.config import RpcTransport
from tests.integration.trials import LEDGER, QUICK, trial


async def test_cluster_on_the_lean_transport_loses_nothing_when_a_leader_dies(tmp_path: Path) -> None:
    topics = {"ledger": {"partitions": 2, "replication_factor": 3}}
    settings = {**QUICK, "rpc.transport": "lean"}
    async with trial(tmp_path, topics, settings=settings, is_combined=True) as drill:
        async with drill.load() as load:
            await load.acknowledges()
            victim = await drill.leader(LEDGER)
            await drill.cluster.kill(victim)
            await load.acknowledges()
            await drill.cluster.start([victim])
            await drill.until_whole()
            await load.acknowledges()
        proof = await drill.prove()
        assert proof.refused == 0
        await read_own_record(drill.cluster.bootstrap)


async def read_own_record(bootstrap: str) -> None:
    """With clients that speak through it as well."""
    transport = client_transport(RpcTransport.LEAN)
    async with AsyncProducer(bootstrap, transport=transport) as producer:
        written = await (await producer.send("ledger", b"by lean", partition=0))
    async with AsyncConsumer(bootstrap, transport=transport) as consumer:
        consumer.assign([("ledger", 0)])
        assert written.offset is not None
        consumer.seek(("ledger", 0), written.offset)
        async for record in consumer:
            assert record.value == b"by lean"
            return
