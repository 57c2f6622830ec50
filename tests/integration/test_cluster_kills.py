"""kill -9 of nodes under load: writes go on, and nothing acknowledged is lost."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from quorate.chaos.live.load import LedgerLoad
from tests.integration.trials import LEDGER, Trial, trial

#: small segments, so that kills strike logs of several files
SMALL_SEGMENTS: Final = {"segment.bytes": "64KiB"}


def led_by_one(brokers: int, **configs: str) -> dict[str, object]:
    """A topic that every broker has, with one leader, so that another one is nothing but a follower."""
    others = list(range(2, brokers + 1))
    return {"assignments": {0: [1, *others], 1: [1, *reversed(others)]}, "configs": configs}


async def kill_in_turn(drill: Trial, load: LedgerLoad) -> None:
    """A leader, a follower and the active controller: each is back before the next one goes."""
    for victim in (
        await drill.leader(LEDGER),
        (await drill.followers(LEDGER))[-1],
        await drill.active_controller(),
    ):
        await drill.cluster.kill(victim)
        await load.acknowledges()
        await drill.cluster.start([victim])
        await drill.until_whole()


async def test_three_brokers_with_default_settings_outlive_a_leader_a_follower_and_the_controller(
    tmp_path: Path,
) -> None:
    async with trial(tmp_path, {"ledger": led_by_one(3)}, settings={}) as drill:
        async with drill.load() as load:
            await load.acknowledges()
            await kill_in_turn(drill, load)
        proof = await drill.prove()
    assert proof.replicas == 6
    assert (proof.refused, proof.unknown) == (0, 0), "failover is ridden through, not reported"


async def test_five_combined_nodes_outlive_the_same_and_then_any_two_at_once(tmp_path: Path) -> None:
    topic = led_by_one(5, **{"min.insync.replicas": "3", **SMALL_SEGMENTS})
    async with trial(tmp_path, {"ledger": topic}, settings={}, brokers=5, is_combined=True) as drill:
        async with drill.load() as load:
            await load.acknowledges()
            await kill_in_turn(drill, load)
            controller = await drill.active_controller()
            other = next(name for name in drill.cluster.names if name != controller)
            await drill.cluster.kill(controller, other)
            await load.acknowledges()
            await drill.cluster.start([controller, other])
            await load.acknowledges()
        proof = await drill.prove()
    assert proof.replicas == 10
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
