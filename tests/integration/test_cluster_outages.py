"""Too few nodes: writes are refused or end as unknown, never acknowledged, and go on when nodes return."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from quorate.chaos.history.entries import Outcome
from quorate.client import AsyncProducer
from quorate.errors import NotEnoughReplicas, QuorateError
from tests.integration.direct_calls import produce_request
from tests.integration.trials import LEDGER, Trial, trial

#: an acknowledgement that its leader gave alone counts, if the topic says so
ALONE: Final = {"replication_factor": 3, "configs": {"min.insync.replicas": "1"}}


async def test_writes_stop_without_enough_replicas_and_go_on_with_the_first_that_returns(
    tmp_path: Path,
) -> None:
    """Controllers apart: the quorum is whole, so the ISR shrinks and the refusal says why."""
    async with trial(tmp_path, {"ledger": {"replication_factor": 3}}, controllers=3) as drill:
        async with drill.load() as load:
            await load.acknowledges()
            victims = await drill.followers(LEDGER)
            leader = await drill.leader(LEDGER)
            await drill.cluster.kill(*victims)
            await drill.described_until(LEDGER, lambda each: each.isr == (drill.id_of(leader),))
            async with drill.calls(leader) as broker:
                refused = await broker.produce(produce_request(b"refused", topic="ledger"))
            assert refused.error.code == NotEnoughReplicas.code
            await drill.cluster.start(victims[:1])
            await load.acknowledges()
            await drill.cluster.start(victims[1:])
        # Also that the refused record is nowhere: nobody has it in the history.
        proof = await drill.prove()
    assert proof.replicas == 3
    assert (proof.refused, proof.unknown) == (0, 0)


async def test_partition_waits_for_its_only_isr_member_although_stale_replicas_live(tmp_path: Path) -> None:
    async with trial(tmp_path, {"ledger": ALONE}, controllers=1) as drill:
        async with drill.load() as load:
            await load.acknowledges()
            leader, stale = await drill.leader(LEDGER), await drill.followers(LEDGER)
            await drill.cluster.kill(*stale)
            await load.acknowledges()
        await drill.cluster.kill(leader)
        await drill.cluster.start(stale)
        await drill.are_unfenced(stale)
        # One more committed change, behind everything that their return has set off.
        await drill.admin.create_topic("after", replication_factor=1)
        waiting = await drill.describe(LEDGER)
        assert (waiting.leader, waiting.isr, waiting.elr) == (None, (drill.id_of(leader),), ())
        assert (await drill.admin.describe_cluster()).offline_partition_count == 1
        await refused_while_offline(drill)

        await drill.cluster.start([leader])
        async with drill.load(name="later") as load:
            await load.acknowledges()
        await drill.prove()


async def refused_while_offline(drill: Trial) -> None:
    async with AsyncProducer(drill.cluster.bootstrap, delivery_timeout_ms=1_000) as producer:
        sent = drill.history.begin("offline", drill.partitions[0])
        try:
            written = await (await producer.send("ledger", sent.value, partition=0))
            drill.history.acknowledge(sent, written.offset)
        except QuorateError as error:
            drill.history.fail(sent, error)
    assert sent.is_refused, "nobody was there to take it, and the producer knows"


async def test_writes_without_a_quorum_end_as_unknown_and_are_never_acknowledged(tmp_path: Path) -> None:
    topics = {"ledger": {"partitions": 3, "replication_factor": 3}}
    async with trial(tmp_path, topics, is_combined=True) as drill:
        async with drill.load() as load:
            await load.acknowledges()
        survivor = await drill.leader(LEDGER)
        [*victims] = (name for name in drill.cluster.names if name != survivor)
        await drill.cluster.kill(*victims)
        async with drill.load(name="without quorum", producers=1, delivery_timeout_ms=2_000) as load:
            await load.ends(partitions=drill.partitions[:1])
        ends = [each for each in drill.history.sent if each.producer.startswith("without quorum")]
        assert not any(each.is_acknowledged for each in ends)
        assert any(each.outcome is Outcome.UNKNOWN for each in ends)

        await drill.cluster.start(victims)
        async with drill.load(name="later") as load:
            await load.acknowledges()
        proof = await drill.prove()
    assert proof.unknown > 0
