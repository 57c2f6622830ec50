"""The back-up of docs/operations/backup.md: a copy of every directory, made while nothing runs."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.integration.trials import trial

TOPICS = {"ledger": {"partitions": 2, "replication_factor": 2}}


async def test_cluster_put_back_as_a_whole_has_all_that_was_acknowledged_before_the_copy(
    tmp_path: Path,
) -> None:
    async with trial(tmp_path / "cluster", TOPICS, brokers=2, controllers=1) as drill:
        async with drill.load() as load:
            await load.acknowledges()
        await drill.cluster.stop()
        directories = {name: Path(drill.cluster.data_dir(name)) for name in drill.cluster.names}
        for name, directory in directories.items():
            shutil.copytree(directory, tmp_path / "copies" / name)
        await drill.cluster.start()
        await drill.admin.delete_topic("ledger")
        await drill.cluster.stop()
        for name, directory in directories.items():
            shutil.rmtree(directory)
            shutil.copytree(tmp_path / "copies" / name, directory)
        await drill.cluster.start()
        proof = await drill.prove()
    assert proof.acknowledged > 0
    assert (proof.refused, proof.unknown) == (0, 0)
