"""All machines lose power at once: what was acknowledged with durability=fsync is still there."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from quorate.chaos.checks.violation import Violation
from quorate.chaos.faults.mutated_node import mutated_launcher
from quorate.chaos.faults.powerloss import FaultyDisk, Loss, why_no_shim
from quorate.client import AsyncAdmin
from quorate.node.local_cluster import LocalCluster
from tests.integration.trials import QUICK, Trial

pytestmark = pytest.mark.skipif(why_no_shim() is not None, reason=str(why_no_shim()))


@asynccontextmanager
async def cluster_that_loses_power(
    directory: Path, *, launcher: Sequence[str] = ()
) -> AsyncIterator[tuple[Trial, list[FaultyDisk]]]:
    cluster = LocalCluster.create(str(directory), brokers=3, is_combined=True, settings=QUICK)
    disks = [FaultyDisk(cluster.data_dir(name)) for name in cluster.names]
    for name, disk in zip(cluster.names, disks, strict=True):
        cluster.surround(name, launcher=launcher, environment=disk.environment())
    async with cluster, AsyncAdmin(cluster.bootstrap) as admin:
        topic = await admin.create_topic(
            "ledger", partitions=2, replication_factor=3, configs={"durability": "fsync"}
        )
        yield Trial(cluster, admin, {"ledger": topic}), disks


async def lose_power(
    drill: Trial, disks: Sequence[FaultyDisk], torn: random.Random | None = None
) -> list[Loss]:
    """``torn``: the first node keeps pieces of what it had not synced.

    Only one: a replica whose tail is in pieces leaves the ISR (rule 30), and somebody has to stay.
    """
    await drill.cluster.kill(*drill.cluster.names)
    losses = [disks[0].lose_power(torn)] + [disk.lose_power() for disk in disks[1:]]
    await drill.cluster.start()
    return losses


async def test_nothing_acknowledged_is_lost_when_all_nodes_lose_power(tmp_path: Path) -> None:
    async with cluster_that_loses_power(tmp_path) as (drill, disks):
        async with drill.load() as load:
            await load.acknowledges()
            losses = await lose_power(drill, disks)
            await load.acknowledges()
            losses += await lose_power(drill, disks, random.Random(7))
            await load.acknowledges()
        proof = await drill.prove()
    assert proof.acknowledged
    assert any(loss.lost_bytes for loss in losses), "or there was nothing to lose"


async def test_build_that_acknowledges_before_the_sync_is_caught(tmp_path: Path) -> None:
    launcher = mutated_launcher("acknowledge-before-sync")
    async with cluster_that_loses_power(tmp_path, launcher=launcher) as (drill, disks):
        async with drill.load() as load:
            await load.acknowledges()
        await lose_power(drill, disks)
        with pytest.raises(Violation) as caught:
            await drill.prove()
    assert caught.value.check == "lost-write", caught.value
