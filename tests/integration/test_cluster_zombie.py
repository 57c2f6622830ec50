"""A leader that is paused beyond its session: another leads, and the old one wakes up to no authority."""

from __future__ import annotations

import asyncio
from pathlib import Path

from quorate.errors import QuorateError
from quorate.v1 import broker_pb2, records_pb2
from tests.integration.trials import trial


def produce(value: bytes) -> broker_pb2.ProduceRequest:
    entry = broker_pb2.ProducePartition(topic="ledger", records=[records_pb2.Record(value=value)])
    return broker_pb2.ProduceRequest(acks=broker_pb2.ACKS_LEADER, timeout_ms=60_000, partitions=[entry])


def fetch() -> broker_pb2.FetchRequest:
    return broker_pb2.FetchRequest(max_wait_ms=60_000, partitions=[broker_pb2.FetchPartition(topic="ledger")])


async def test_paused_leader_answers_neither_reads_nor_acks_1_from_its_old_state(tmp_path: Path) -> None:
    async with trial(tmp_path, {"ledger": {"replication_factor": 3}}, controllers=1) as drill:
        async with drill.load() as load:
            await load.acknowledges()
            zombie = await drill.leader("ledger")
            async with drill.connect(zombie) as connection:
                # It leads, and is connected to.
                [fetched] = (await connection.fetch(fetch())).partitions
                assert not fetched.HasField("error")
                await drill.cluster.pause(zombie)
                # They arrive before anything that could tell it that it was replaced.
                writing = asyncio.create_task(connection.produce(produce(b"never acknowledged")))
                reading = asyncio.create_task(connection.fetch(fetch()))
                await drill.partition_until(
                    "ledger", lambda each: each.leader not in (None, drill.id(zombie))
                )
                await load.acknowledges()
                drill.cluster.resume(zombie)
                answers = await asyncio.gather(writing, reading, return_exceptions=True)
            await drill.until_whole()
        for answer in answers:
            assert not isinstance(answer, BaseException) or isinstance(answer, QuorateError)
            if not isinstance(answer, BaseException):
                [result] = answer.partitions
                assert result.HasField("error"), result
        # Also that the record is nowhere: nobody has it in the history.
        proof = await drill.prove()
    assert (proof.refused, proof.unknown) == (0, 0)
