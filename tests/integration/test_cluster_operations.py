"""What operators do to a cluster under load: restarts, a wiped disk, moves to a new broker, deletions."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from quorate.chaos.live.waiting import topic_until
from quorate.client.admin.types import TopicDescription
from tests.integration.trials import LEDGER, QUICK, Trial, trial, until

SMALL_SEGMENTS: Final = {"segment.bytes": "64KiB"}


async def test_restart_of_every_broker_in_turn_refuses_and_loses_nothing(tmp_path: Path) -> None:
    topics = {"ledger": {"partitions": 3, "replication_factor": 3}}
    async with trial(tmp_path, topics, is_combined=True) as drill:
        async with drill.load() as load:
            await load.acknowledges()
            for name in drill.cluster.names:
                await drill.cluster.restart(name)
                await load.acknowledges()
                await drill.until_whole()
        proof = await drill.prove()
    assert (proof.refused, proof.unknown) == (0, 0)


async def test_wiped_broker_comes_back_empty_counts_for_nothing_and_is_filled_again(tmp_path: Path) -> None:
    topics = {"ledger": {"partitions": 2, "replication_factor": 3, "configs": SMALL_SEGMENTS}}
    async with trial(tmp_path, topics, controllers=1) as drill:
        async with drill.load() as load:
            await load.acknowledges()
            victim = await drill.leader(LEDGER)
            await drill.cluster.kill(victim)
            drill.cluster.wipe(victim)
            await load.acknowledges()
            await drill.cluster.start([victim])
            await load.acknowledges()
        proof = await drill.prove()
    assert proof.replicas == 6
    assert (proof.refused, proof.unknown) == (0, 0)


async def test_partitions_move_to_a_new_broker_with_their_data_and_leave_no_files_behind(
    tmp_path: Path,
) -> None:
    topics: dict[str, dict[str, object]] = {
        "ledger": {"assignments": {0: [1, 2], 1: [2, 1]}, "configs": SMALL_SEGMENTS},
        "doomed": {"assignments": {0: [1, 2]}},
    }
    settings = {**QUICK, "file.delete.delay.ms": "0"}
    async with trial(tmp_path, topics, settings=settings, brokers=2, controllers=1) as drill:
        async with drill.load("ledger") as load:
            await load.acknowledges()
            newcomer = drill.cluster.add_broker()
            await drill.cluster.start([newcomer])
            new = drill.id_of(newcomer)
            await drill.admin.reassign_partitions({("ledger", 0): [new, 2], ("ledger", 1): [2, new]})
            await topic_until(drill.admin, "ledger", lambda topic: has_moved(topic, {new, 2}))
            await load.acknowledges()
        proof = await drill.prove("ledger")
        assert proof.replicas == 4
        assert (proof.refused, proof.unknown) == (0, 0)
        await until(lambda: has_no_files(drill, "broker-1", "ledger"), "the files of moved replicas go")

        assert replica_names(drill, "broker-1", "doomed") == ["doomed-0"]
        await drill.admin.delete_topic("doomed")
        await until(lambda: has_no_files(drill, "broker-1", "doomed"), "the files of a deleted topic go")
        await until(lambda: has_no_files(drill, "broker-2", "doomed"), "they go from every replica")
        await drill.prove("ledger")


def has_moved(topic: TopicDescription, replicas: set[int]) -> bool:
    return all(set(each.replicas) == replicas and not each.adding_replicas for each in topic.partitions)


def replica_names(drill: Trial, broker: str, topic: str) -> list[str]:
    """What of a topic lies in a broker's directory, whether it serves it or is about to delete it."""
    names = (name.partition(".")[0] for name in os.listdir(drill.cluster.data_dir(broker)))
    return sorted(name for name in names if name.startswith(f"{topic}-"))


async def has_no_files(drill: Trial, broker: str, topic: str) -> bool:
    return not replica_names(drill, broker, topic)
