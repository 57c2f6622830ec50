"""kill -9 of nodes under load: writes go on, and nothing acknowledged is lost."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tests.integration.trials import LEDGER, trial

#: one broker leads all, so that another one is nothing but a follower
ONE_LEADER: Final = {"assignments": {0: [1, 2, 3], 1: [1, 3, 2]}}
#: small segments, so that kills strike logs of several files
SMALL_SEGMENTS: Final = {"segment.bytes": "64KiB"}


async def test_three_brokers_with_default_settings_outlive_a_leader_a_follower_and_the_controller(
    tmp_path: Path,
) -> None:
    async with trial(tmp_path, {"ledger": ONE_LEADER}, settings={}) as drill:
        async with drill.load() as load:
            await load.acknowledges()
            for victim in (
                await drill.leader(LEDGER),
                (await drill.followers(LEDGER))[-1],
                await drill.active_controller(),
            ):
                await drill.cluster.kill(victim)
                await load.acknowledges()
                await drill.cluster.start([victim])
                await drill.until_whole()
        proof = await drill.prove()
    assert proof.replicas == 6
    assert (proof.refused, proof.unknown) == (0, 0), "failover is ridden through, not reported"


async def test_five_combined_nodes_outlive_any_two_at_once(tmp_path: Path) -> None:
    topic = {
        "partitions": 5,
        "replication_factor": 5,
        "configs": {"min.insync.replicas": "3", **SMALL_SEGMENTS},
    }
    async with trial(tmp_path, {"ledger": topic}, brokers=5, is_combined=True) as drill:
        async with drill.load() as load:
            await load.acknowledges()
            controller = await drill.active_controller()
            other = next(name for name in drill.cluster.names if name != controller)
            await drill.cluster.kill(controller, other)
            await load.acknowledges()
            await drill.cluster.start([controller, other])
            await load.acknowledges()
        proof = await drill.prove()
    assert proof.replicas == 25
    assert (proof.refused, proof.unknown) == (0, 0)


async def test_all_nodes_at_once_keep_everything_acknowledged_with_both_durabilities(tmp_path: Path) -> None:
    """Rule 30's process crash: the page cache outlives the processes, so nobody is taken for lossy."""
    topics = {
        "replicated": {"partitions": 2, "replication_factor": 3, "configs": SMALL_SEGMENTS},
        "synced": {"partitions": 1, "replication_factor": 3, "configs": {"durability": "fsync"}},
    }
    async with trial(tmp_path, topics, is_combined=True) as drill:
        async with drill.load() as load:
            await load.acknowledges()
            for _ in range(2):
                await drill.cluster.kill(*drill.cluster.names)
                await drill.cluster.start()
                await load.acknowledges()
        proof = await drill.prove()
    assert proof.replicas == 9
    assert (proof.refused, proof.unknown) == (0, 0)
