"""Nodes and clients that speak through different implementations of gRPC are one cluster all the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from quorate.client import AsyncConsumer, AsyncProducer
from quorate.client.transport import client_transport
from quorate.core.config import RpcTransport
from tests.integration.trials import LEDGER, QUICK, trial


@pytest.mark.parametrize("transport", RpcTransport)
async def test_cluster_on_either_transport_loses_nothing_when_a_leader_dies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, transport: RpcTransport
) -> None:
    """Its nodes, and whoever is started beside them."""
    monkeypatch.setenv("QUORATE_RPC_TRANSPORT", transport.value)
    topics = {"ledger": {"partitions": 2, "replication_factor": 3}}
    async with trial(tmp_path, topics, settings=QUICK, is_combined=True) as drill:
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
        for kind in RpcTransport:
            await write_and_read(drill.cluster.bootstrap, kind)


@pytest.mark.parametrize("of_leader", RpcTransport)
async def test_nodes_on_different_transports_follow_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, of_leader: RpcTransport
) -> None:
    [of_others] = set(RpcTransport) - {of_leader}
    topics = {"ledger": {"assignments": {0: [1, 2, 3]}}}
    monkeypatch.setenv("QUORATE_RPC_TRANSPORT", of_others.value)
    async with trial(tmp_path, topics, settings=QUICK, is_combined=True) as drill:
        leader = await drill.leader(LEDGER)
        await drill.cluster.stop([leader])
        drill.cluster.surround(leader, environment={"QUORATE_RPC_TRANSPORT": of_leader.value})
        await drill.cluster.start([leader])
        await drill.until_whole()
        async with drill.load() as load:
            await load.acknowledges()
        proof = await drill.prove()
        assert proof.refused == 0


async def write_and_read(bootstrap: str, kind: RpcTransport) -> None:
    transport = client_transport(kind)
    value = f"by {kind.value}".encode()
    async with AsyncProducer(bootstrap, transport=transport) as producer:
        written = await (await producer.send("ledger", value, partition=0))
    async with AsyncConsumer(bootstrap, transport=transport) as consumer:
        consumer.assign([("ledger", 0)])
        assert written.offset is not None
        consumer.seek(("ledger", 0), written.offset)
        async for record in consumer:
            assert record.value == value
            return
