"""Trouble of one kind at a time: what is sent again, what is given up, and with which of the three ends."""

from __future__ import annotations

import asyncio

import pytest

from quorate.chaos.models.producer.fake_broker import FakeCluster, FakePartition, Stored, Trouble, simulate
from quorate.core.records import check_batch
from quorate.errors import (
    BatchTooLarge,
    ClientClosed,
    DeliveryExpired,
    DeliveryTimedOut,
    DeliveryUnknown,
    DiskFull,
    LogDamaged,
    NoController,
    NotEnoughReplicas,
    NotEnoughReplicasAfterAppend,
    NotLeaderOrFollower,
    OutOfOrderSequence,
    RequestTimedOut,
    Unavailable,
    UnknownProducer,
    UnknownTopicOrPartition,
)
from quorate.v1 import broker_pb2


def epochs(partition: FakePartition) -> list[int]:
    return [check_batch(stored.content).producer_epoch for stored in partition.log]


@pytest.mark.parametrize("trouble", [Trouble.LOST, Trouble.ANSWER_LOST, Trouble.UNKNOWN, Trouble.LATE])
def test_batch_without_a_clear_answer_is_sent_again_and_written_once(trouble: Trouble) -> None:
    async def scenario(cluster: FakeCluster) -> None:
        (partition,) = cluster.add_topic()
        async with cluster.producer(batch_bytes=100) as producer:
            partition.script.extend([None, trouble])
            futures = [await producer.send("t", b"%060d" % number) for number in range(8)]
            offsets = [(await future).offset for future in futures]
            assert producer.statistics().retries > 0
        assert offsets == list(range(8))
        assert partition.values() == [b"%060d" % number for number in range(8)]
        assert set(epochs(partition)) == {0}

    simulate(scenario)


@pytest.mark.parametrize("names_the_leader", [True, False])
def test_new_leader_is_found_by_its_name_or_by_asking(names_the_leader: bool) -> None:
    async def scenario(cluster: FakeCluster) -> None:
        (partition,) = cluster.add_topic()
        cluster.names_the_leader = names_the_leader
        async with cluster.producer() as producer:
            await (await producer.send("t", b"a"))
            cluster.elect(partition, 2)
            asked = cluster.metadata_requests
            assert (await (await producer.send("t", b"b"))).offset == 1
            if names_the_leader:
                assert cluster.requests[-1][0] == 2
            else:
                assert cluster.metadata_requests > asked

    simulate(scenario)


def test_silent_leader_is_left_as_soon_as_another_is_elected() -> None:
    """A stopped process keeps its connections: nothing breaks, and nothing is answered."""

    async def scenario(cluster: FakeCluster) -> None:
        (partition,) = cluster.add_topic()
        loop = asyncio.get_running_loop()
        async with cluster.producer(request_timeout_ms=60_000) as producer:
            await (await producer.send("t", b"a"))
            cluster.network.break_after_s = 1e9
            cluster.network.block("client", "b1")
            loop.call_later(3, cluster.elect, partition, 2)
            started = loop.time()
            assert (await (await producer.send("t", b"b"))).offset == 1
            assert loop.time() - started < 6
            cluster.network.heal()

    simulate(scenario)


def test_leader_that_never_answers_is_asked_again_on_a_new_stream() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        (partition,) = cluster.add_topic()
        async with cluster.producer(request_timeout_ms=1000) as producer:
            partition.script.append(Trouble.SILENT)
            assert (await (await producer.send("t", b"a"))).offset == 0
            assert len(cluster.requests) == 2
        assert partition.values() == [b"a"]

    simulate(scenario)


def test_partition_without_a_leader_is_waited_for_without_a_storm() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        (partition,) = cluster.add_topic()
        async with cluster.producer() as producer:
            await (await producer.send("t", b"a"))
            cluster.elect(partition, -1)
            future = await producer.send("t", b"b")
            asked = cluster.metadata_requests
            await asyncio.sleep(10)
            assert 10 < cluster.metadata_requests - asked < 120
            cluster.elect(partition, 3)
            assert (await future).offset == 1

    simulate(scenario)


def test_refused_batch_ends_as_refused_and_those_behind_it_begin_a_new_row() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        (partition,) = cluster.add_topic()
        async with cluster.producer(batch_bytes=100) as producer:
            await (await producer.send("t", b"first"))
            partition.script.extend([None, BatchTooLarge("too large")])
            futures = [await producer.send("t", b"%060d" % number) for number in range(5)]
            assert (await futures[0]).offset == 1
            with pytest.raises(BatchTooLarge):
                await futures[1]
            assert [(await future).offset for future in futures[2:]] == [2, 3, 4]
        assert epochs(partition) == [0, 0, 1, 1, 1]

    simulate(scenario)


def test_batch_before_a_refused_one_keeps_its_number() -> None:
    """It may be in the log: with another number it would be written twice."""

    async def scenario(cluster: FakeCluster) -> None:
        (partition,) = cluster.add_topic()
        async with cluster.producer(batch_bytes=100) as producer:
            await (await producer.send("t", b"first"))
            partition.script.extend([Trouble.UNKNOWN, BatchTooLarge("too large")])
            futures = [await producer.send("t", b"%060d" % number) for number in range(3)]
            assert (await futures[0]).offset == 1
            with pytest.raises(BatchTooLarge):
                await futures[1]
            assert (await futures[2]).offset == 2
        assert partition.values()[1:] == [b"%060d" % 0, b"%060d" % 2]

    simulate(scenario)


def test_refusal_after_an_unclear_attempt_is_not_a_refusal() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        (partition,) = cluster.add_topic()
        async with cluster.producer() as producer:
            partition.script.extend([Trouble.UNKNOWN, LogDamaged("quarantined")])
            with pytest.raises(DeliveryUnknown) as ended:
                await (await producer.send("t", b"a"))
            assert ended.value.facts["last_code"] == "LOG_DAMAGED"
            assert producer.statistics().records_unknown == 1
        assert partition.values() == [b"a"]

    simulate(scenario)


def test_time_over_while_it_may_be_written_is_unknown() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        (partition,) = cluster.add_topic()
        async with cluster.producer(delivery_timeout_ms=500) as producer:
            partition.script.append(Trouble.SILENT)
            future = await producer.send("t", b"a")
            with pytest.raises(DeliveryTimedOut):
                await future
            # The row may have a hole: the next record does not wait for it, and does not fall into it.
            assert (await (await producer.send("t", b"b"))).offset == 1
        assert epochs(partition) == [0, 1]

    simulate(scenario)


def test_time_over_while_it_is_refused_again_and_again_is_not_written() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        (partition,) = cluster.add_topic()
        async with cluster.producer(delivery_timeout_ms=500) as producer:
            partition.script.extend(NotEnoughReplicas("one is left") for _ in range(1000))
            with pytest.raises(DeliveryExpired) as ended:
                await (await producer.send("t", b"a"))
            assert ended.value.facts["last_code"] == "NOT_ENOUGH_REPLICAS"
            assert isinstance(ended.value.__cause__, NotEnoughReplicas)
            partition.script.clear()
            assert (await (await producer.send("t", b"b"))).offset == 0
        assert partition.values() == [b"b"]

    simulate(scenario)


class FullPartition(FakePartition):
    """Its disk is full. Sequences are checked before anything is written, as brokers do it."""

    is_full = True

    def append(self, asked: broker_pb2.ProducePartition) -> Stored:
        if self.is_full:
            self.producers.check(check_batch(asked.batch))
            raise DiskFull("no room")
        return super().append(asked)


@pytest.mark.parametrize("seed", range(5))
def test_reason_that_is_told_is_the_first_batchs_and_not_what_follows_from_it(seed: int) -> None:
    """Those behind a refused batch are out of order: the producer's own doing, and no news to anybody."""

    async def scenario(cluster: FakeCluster) -> None:
        partition = FullPartition(leader=1)
        cluster.add_topic()
        cluster.topics["t"] = [partition]
        async with cluster.producer(batch_bytes=100, delivery_timeout_ms=800) as producer:
            futures = []
            for number in range(12):
                futures.append(await producer.send("t", b"%060d" % number))
                await cluster.simulation.clock.sleep(0.05)
            for future in futures:
                # Where the time is up while an attempt is on its way, the outcome is not known.
                with pytest.raises((DeliveryExpired, DeliveryTimedOut)) as ended:
                    await future
                assert ended.value.facts["last_code"] == "DISK_FULL"
                assert isinstance(ended.value.__cause__, DiskFull)
            partition.is_full = False
            assert (await (await producer.send("t", b"b"))).offset == 0

    simulate(scenario, seed=seed)


def test_outcome_behind_a_batch_that_was_given_up_is_unknown_for_that_batchs_reason() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        (partition,) = cluster.add_topic()
        async with cluster.producer(batch_bytes=100) as producer:
            await (await producer.send("t", b"first"))
            partition.script.extend([RequestTimedOut("lost"), RequestTimedOut("lost"), LogDamaged("bad")])
            *futures, last = [await producer.send("t", b"%060d" % number) for number in range(3)]
            for future in futures:
                with pytest.raises(DeliveryUnknown) as ended:
                    await future
                assert ended.value.facts["last_code"] == "LOG_DAMAGED"
            assert (await last).offset == 1

    simulate(scenario)


@pytest.mark.parametrize(
    ("records", "what"), [(1, "the record is too large"), (2, "2 records are too large")]
)
def test_too_large_is_said_of_records_and_names_the_setting(records: int, what: str) -> None:
    async def scenario(cluster: FakeCluster) -> None:
        (partition,) = cluster.add_topic()
        async with cluster.producer() as producer:
            partition.script.append(BatchTooLarge("the batch has many bytes", max_message_bytes=50))
            with pytest.raises(BatchTooLarge, match=f"{what}.*max.message.bytes is 50") as refused:
                await (await producer.send_many("t", [b"a" * 60] * records, partition=0))
            assert refused.value.facts == {"topic": "t", "partition": 0, "max_message_bytes": 50}

    simulate(scenario)


def test_unknown_topic_is_not_waited_for_longer_than_a_delivery() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        for broker in ("b1", "b2", "b3"):
            cluster.network.block("client", broker)
        started = asyncio.get_running_loop().time()
        async with cluster.producer(delivery_timeout_ms=3000) as producer:
            with pytest.raises(DeliveryExpired, match=r"not sent within 3000 ms.*nobody answers at") as ended:
                await producer.send("t", b"a")
            assert not ended.value.outcome_unknown, "the record never left"
        assert asyncio.get_running_loop().time() - started < 5, "max_block_ms is a minute"

    simulate(scenario)


def test_time_over_without_a_leader_or_without_an_id_is_not_written() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        (partition,) = cluster.add_topic()
        cluster.producer_id_errors.extend(NoController("no quorum") for _ in range(1000))
        async with cluster.producer(delivery_timeout_ms=500, request_timeout_ms=100) as producer:
            with pytest.raises(DeliveryExpired) as ended:
                await (await producer.send("t", b"a"))
            assert ended.value.facts["last_code"] == "NO_CONTROLLER"
            cluster.elect(partition, -1)
            with pytest.raises(DeliveryExpired) as ended:
                await (await producer.send("t", b"a"))
            assert isinstance(ended.value.__cause__, NoController | NotLeaderOrFollower)
        assert not partition.log

    simulate(scenario)


def test_id_is_asked_for_until_it_is_given_and_only_once() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        cluster.add_topic(partitions=3)
        cluster.add_topic("u")
        cluster.producer_id_errors.extend(NoController("no quorum") for _ in range(3))
        async with cluster.producer() as producer:
            for number in range(3):
                await producer.send("t", b"a", partition=number)
            await producer.flush()
            await (await producer.send("u", b"a"))
        assert cluster.producer_ids == 1

    simulate(scenario)


def test_partition_that_used_up_its_epochs_gets_another_id() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        (partition,) = cluster.add_topic()
        cluster.first_epoch = 32767
        async with cluster.producer(batch_bytes=100) as producer:
            partition.script.append(BatchTooLarge("too large"))
            futures = [await producer.send("t", b"%060d" % number) for number in range(3)]
            with pytest.raises(BatchTooLarge):
                await futures[0]
            cluster.first_epoch = 0
            assert [(await future).offset for future in futures[1:]] == [0, 1]
        assert cluster.producer_ids == 2
        assert [check_batch(stored.content).producer_id for stored in partition.log] == [2, 2]

    simulate(scenario)


def test_log_that_forgot_the_producer_is_written_under_a_new_epoch() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        (partition,) = cluster.add_topic()
        async with cluster.producer() as producer:
            await (await producer.send("t", b"a"))
            partition.script.append(UnknownProducer("expired"))
            assert (await (await producer.send("t", b"b"))).offset == 1
        assert epochs(partition) == [0, 1]

    simulate(scenario)


def test_log_that_lost_what_it_acknowledged_ends_a_doubtful_batch_as_unknown() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        (partition,) = cluster.add_topic()
        async with cluster.producer() as producer:
            await (await producer.send("t", b"a"))
            partition.script.extend([Trouble.LOST, OutOfOrderSequence("a hole")])
            with pytest.raises(DeliveryUnknown):
                await (await producer.send("t", b"b"))
            assert (await (await producer.send("t", b"c"))).offset == 1

    simulate(scenario)


@pytest.mark.parametrize("acks", [0, 1, "all"])
def test_without_numbers_an_unclear_attempt_is_the_end(acks: int | str) -> None:
    async def scenario(cluster: FakeCluster) -> None:
        (partition,) = cluster.add_topic()
        async with cluster.producer(enable_idempotence=False, acks=acks) as producer:
            partition.script.extend([NotEnoughReplicas("refused"), Trouble.ANSWER_LOST])
            with pytest.raises(Unavailable) as ended:
                await (await producer.send("t", b"a"))
            assert ended.value.outcome_unknown
            partition.script.append(NotEnoughReplicasAfterAppend("who knows"))
            with pytest.raises(NotEnoughReplicasAfterAppend):
                await (await producer.send("t", b"b"))
        assert partition.values() == [b"a"]

    simulate(scenario)


def test_request_that_never_left_is_sent_again_also_without_numbers() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        (partition,) = cluster.add_topic()
        async with cluster.producer(enable_idempotence=False) as producer:
            partition.script.append(NotLeaderOrFollower("moved"))
            assert (await (await producer.send("t", b"a"))).offset == 0

    simulate(scenario)


def test_closing_ends_what_is_left_with_the_truth() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        (partition,) = cluster.add_topic()
        producer = cluster.producer(batch_bytes=100, max_in_flight=1)
        await (await producer.send("t", b"first"))
        partition.script.append(Trouble.SILENT)
        futures = [await producer.send("t", b"%060d" % number) for number in range(3)]
        with pytest.raises(TimeoutError):
            await producer.flush(timeout=0.5)
        await producer.close(timeout=0.5)
        with pytest.raises(DeliveryUnknown):
            await futures[0]
        for future in futures[1:]:
            with pytest.raises(ClientClosed):
                await future

    simulate(scenario)


def test_slow_partition_does_not_hold_back_others() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        slow, _ = cluster.add_topic(partitions=2)
        async with cluster.producer() as producer:
            slow.script.extend(NotEnoughReplicas("waits") for _ in range(5))
            waiting = await producer.send("t", b"a", partition=0)
            for number in range(5):
                assert (await (await producer.send("t", b"b", partition=1))).offset == number
            assert not waiting.done()
            assert (await waiting).offset == 0

    simulate(scenario)


def test_broker_that_times_out_is_asked_again() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        (partition,) = cluster.add_topic()
        async with cluster.producer() as producer:
            partition.script.extend([RequestTimedOut("too few copies")] * 3)
            assert (await (await producer.send("t", b"a"))).offset == 0
            assert producer.statistics().attempts == 4

    simulate(scenario)


# -- a topic that is made anew


def test_records_go_where_a_topic_made_anew_has_partitions() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        cluster.add_topic(partitions=8)
        keys = [b"%d" % number for number in range(40)]
        async with cluster.producer() as producer, cluster.producer(partitioner="round_robin") as in_turn:
            for each in (producer, in_turn):
                await (await each.send_many("t", keys, keys=keys))
            made_anew = cluster.add_topic(partitions=2)
            for each in (producer, in_turn):
                # Who has not heard of it yet may still choose what is not there any more.
                with pytest.raises(UnknownTopicOrPartition):
                    await (await each.send_many("t", keys, keys=keys))
            for each in (producer, in_turn):
                futures = [await each.send("t", key, key=key) for key in keys]
                futures += [await each.send("t", key) for key in keys]
                assert {(await future).partition for future in futures} <= {0, 1}
                await (await each.send_many("t", keys, keys=keys))
                with pytest.raises(UnknownTopicOrPartition):
                    await each.send("t", b"x", partition=2)
        assert all(partition.log for partition in made_anew)

    simulate(scenario)


def test_what_waits_for_a_partition_that_is_gone_ends_at_once_and_with_the_truth() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        _, gone = cluster.add_topic(partitions=2)
        async with cluster.producer(batch_bytes=100) as producer:
            await (await producer.send("t", b"a", partition=1))
            gone.script.append(Trouble.ANSWER_LOST)
            futures = [await producer.send("t", b"%060d" % 0, partition=1)]
            await asyncio.sleep(0.001)
            cluster.elect(gone, -1, kept=1)
            futures += [await producer.send("t", b"%060d" % number, partition=1) for number in (1, 2)]
            await asyncio.sleep(1)
            assert gone.log_end == 2
            assert not any(future.done() for future in futures)
            cluster.add_topic(partitions=1)
            await asyncio.sleep(1)
            assert all(future.done() for future in futures)
            with pytest.raises(DeliveryUnknown):
                await futures[0]
            for future in futures[1:]:
                with pytest.raises(UnknownTopicOrPartition):
                    await future

    simulate(scenario)


def test_partition_that_comes_back_in_a_topic_made_anew_takes_what_is_sent_then() -> None:
    """Once each: brokers may know the numbers that were given before."""

    async def scenario(cluster: FakeCluster) -> None:
        _, before = cluster.add_topic(partitions=2)
        async with cluster.producer() as producer:
            await (await producer.send("t", b"a", partition=1))
            cluster.add_topic(partitions=1)
            with pytest.raises(UnknownTopicOrPartition):
                await (await producer.send("t", b"b", partition=1))
            after = cluster.add_topic(partitions=2)
            # As if its brokers had known the producer all along.
            after[1].producers = before.producers
            for value in (b"c", b"d"):
                await (await producer.send("t", value, partition=1))
            assert after[1].values() == [b"c", b"d"]

    simulate(scenario)
