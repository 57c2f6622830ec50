"""A leader that is paused beyond its session: another leads, and the old one wakes up to no authority."""

from __future__ import annotations

import asyncio
from pathlib import Path

from quorate.errors import QuorateError
from quorate.v1 import broker_pb2
from tests.integration.direct_calls import fetch_request, produce_request
from tests.integration.trials import LEDGER, trial


async def test_paused_leader_answers_neither_reads_nor_acks_1_from_its_old_state(tmp_path: Path) -> None:
    async with trial(tmp_path, {"ledger": {"replication_factor": 3}}, controllers=1) as drill:
        async with drill.load() as load:
            await load.acknowledges()
            zombie = await drill.leader(LEDGER)
            async with drill.calls(zombie) as broker:
                # It leads, and is connected to.
                assert (await broker.fetch(fetch_request("ledger"))).records
                await drill.cluster.pause(zombie)
                # They are there before anything that could tell it that it was replaced.
                late_write = produce_request(
                    b"never acknowledged", topic="ledger", acks=broker_pb2.ACKS_LEADER, timeout_ms=60_000
                )
                writing = asyncio.create_task(broker.produce(late_write))
                reading = asyncio.create_task(broker.fetch(fetch_request("ledger", max_wait_ms=60_000)))
                await drill.another_leads(LEDGER, than=zombie)
                await load.acknowledges()
                drill.cluster.resume(zombie)
                answers = await asyncio.gather(writing, reading, return_exceptions=True)
            await drill.until_whole()
        for answer in answers:
            if isinstance(answer, BaseException):
                assert isinstance(answer, QuorateError)
            else:
                assert answer.HasField("error"), answer
        # Also that the record is nowhere: nobody has it in the history.
        proof = await drill.prove()
    assert (proof.refused, proof.unknown) == (0, 0)
