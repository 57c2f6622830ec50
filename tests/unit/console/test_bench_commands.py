"""``quorate bench`` against clients that only pretend."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

from quorate.client import ProducerStatistics
from quorate.console.main import main
from quorate.console.measuring import bench_topic, consuming, latency, producing
from quorate.console.measuring.percentiles import percentiles_of
from quorate.console.measuring.values import values_of
from quorate.console.session import Session
from quorate.core.records import ConsumerRecord
from quorate.errors import BufferExhausted, QuorateError
from quorate.v1 import admin_pb2


class Topics:
    """Stands in for a connection; knows which topics were made and deleted."""

    def __init__(self) -> None:
        self.created: list[str] = []
        self.deleted: list[str] = []

    async def describe_topic(self, name: str) -> admin_pb2.TopicDescription:
        partitions = [admin_pb2.PartitionDescription(partition=each) for each in range(2)]
        limit = admin_pb2.ConfigEntry(name="max.message.bytes", value="1048588")
        return admin_pb2.TopicDescription(
            name=name, topic_id=f"id of {name}", partitions=partitions, configs=[limit]
        )

    async def create_topic(self, request: admin_pb2.CreateTopicRequest) -> admin_pb2.TopicDescription:
        self.created.append(request.name)
        return await self.describe_topic(request.name)

    async def delete_topic(self, topic_id: str) -> None:
        self.deleted.append(topic_id.removeprefix("id of "))


class PretendedProducer:
    """Acknowledges everything at once, but for ``refused`` records."""

    refused = 0
    error: QuorateError | None = None
    made: list[PretendedProducer]

    def __init__(self, _bootstrap: str, **options: Any) -> None:
        self.options = options
        self.sent = 0
        self.calls = 0
        PretendedProducer.made.append(self)

    def __enter__(self) -> PretendedProducer:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def send(
        self, _topic: str, _value: bytes, on_delivery: Callable[..., None] | None = None, **_: object
    ) -> None:
        self.sent += 1
        self.calls += 1
        if on_delivery is not None:
            on_delivery(None, self.error)

    def send_many(self, _topic: str, values: Sequence[bytes]) -> None:
        self.sent += len(values)
        self.calls += 1

    def flush(self) -> None:
        pass

    def statistics(self) -> ProducerStatistics:
        return ProducerStatistics(
            records_acknowledged=self.sent - self.refused,
            batches_acknowledged=1,
            bytes_acknowledged=1,
            records_refused=self.refused,
            records_unknown=0,
            attempts=1,
            retries=0,
            batches_in_flight=0,
            buffered_bytes=0,
            latency_ms_median=None,
            latency_ms_p99=None,
            latency_ms_max=None,
        )


class PretendedConsumer:
    """Has ``records`` of five bytes each, and then nothing."""

    records = 1_000

    def __init__(self, _bootstrap: str) -> None:
        self._left = self.records

    def __enter__(self) -> PretendedConsumer:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def assign(self, partitions: list[tuple[str, int]]) -> None:
        assert [number for _, number in partitions] == [0, 1]

    def seek_to_beginning(self, *_: tuple[str, int]) -> None:
        pass

    def poll(self, *, max_records: int, timeout: float) -> list[ConsumerRecord]:
        count = min(max_records, self._left)
        self._left -= count
        record = ConsumerRecord("t", 0, 0, 0, None, b"value", (), 0)
        return [record] * count


@pytest.fixture
def topics(monkeypatch: pytest.MonkeyPatch) -> Topics:
    topics = Topics()

    def with_topics(_bootstrap: str, work: Callable[[Any], Awaitable[Any]]) -> Any:
        async def run() -> Any:
            return await work(topics)

        return asyncio.run(run())

    monkeypatch.setattr(bench_topic, "with_connection", with_topics)
    return topics


@pytest.fixture(autouse=True)
def pretending(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PretendedProducer, "made", [], raising=False)
    monkeypatch.setattr(producing, "Producer", PretendedProducer)
    monkeypatch.setattr(consuming, "Consumer", PretendedConsumer)


def bench(*arguments: str) -> int:
    return main(["bench", *arguments, "--output", "json"])


def test_a_topic_made_for_the_measurement_is_deleted_afterwards(topics: Topics) -> None:
    assert bench("produce", "--records", "10") == 0
    assert len(topics.created) == 1
    assert topics.deleted == topics.created


def test_it_is_deleted_too_if_the_measurement_fails(topics: Topics, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PretendedProducer, "error", BufferExhausted("full"))
    assert bench("produce", "--records", "10") == 1
    assert topics.deleted == topics.created != []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_it_is_deleted_too_if_the_measurement_is_terminated(
    topics: Topics, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    before = signal.getsignal(number)
    monkeypatch.setattr(PretendedProducer, "flush", lambda _self: signal.raise_signal(number))
    assert bench("produce", "--records", "100") == 130
    assert len(topics.created) == 1
    assert topics.deleted == topics.created
    assert signal.getsignal(number) == before


@pytest.mark.parametrize("what", ["produce", "consume", "latency"])
def test_values_that_the_topic_does_not_take_are_refused_before_anything_is_sent(
    topics: Topics, capsys: pytest.CaptureFixture[str], what: str
) -> None:
    assert bench(what, "--records", "10", "--size", "2000000") == 1
    assert json.loads(capsys.readouterr().err)["error"]["code"] == "MESSAGE_TOO_LARGE"
    assert not PretendedProducer.made
    assert topics.deleted == topics.created


def test_large_values_repeat_so_that_making_them_takes_little_memory_and_time() -> None:
    values = values_of(8 << 20, 1_000)
    assert len(values) == 1_000
    assert len({id(value) for value in values}) == 2
    assert {len(value) for value in values} == {8 << 20}
    assert len(set(values_of(100, 1_000))) == 1_000


def test_no_more_values_are_made_than_are_sent(topics: Topics, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def values(value_bytes: int, count: int) -> list[bytes]:
        asked.append(count)
        return [bytes(value_bytes)] * count

    monkeypatch.setattr(producing, "values_of", values)
    assert bench("produce", "--records", "10") == 0
    assert bench("produce", "--records", "5000") == 0
    assert asked == [10, 1_000]


def test_ctrl_c_does_not_reach_the_receiving_process(monkeypatch: pytest.MonkeyPatch) -> None:
    class Started(Exception):
        pass

    def popen(_command: list[str], **options: Any) -> None:
        assert options["process_group"] == 0
        raise Started

    monkeypatch.setattr(subprocess, "Popen", popen)
    with pytest.raises(Started), latency._receiver(Session(), bench_topic.BenchTopic("t", 2), 5):
        pass


def test_a_topic_that_was_named_is_neither_made_nor_deleted(topics: Topics) -> None:
    assert bench("produce", "--topic", "mine", "--records", "10") == 0
    assert topics.created == topics.deleted == []


def test_the_warm_up_is_sent_and_not_counted(topics: Topics, capsys: pytest.CaptureFixture[str]) -> None:
    bench("produce", "--records", "2500", "--warm-up-records", "1200")
    assert PretendedProducer.made[0].sent == 3700
    assert json.loads(capsys.readouterr().out)["records"] == 2500


def test_send_many_makes_few_calls(topics: Topics) -> None:
    bench("produce", "--records", "10000", "--warm-up-records", "0", "--send-many")
    producer = PretendedProducer.made[0]
    assert producer.sent == 10_000
    assert producer.calls == 20


def test_a_record_that_was_given_up_makes_the_measurement_fail(
    topics: Topics, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(PretendedProducer, "refused", 1)
    assert bench("produce", "--records", "100", "--warm-up-records", "0") == 1
    assert "1 of 100 records were given up" in capsys.readouterr().err


def test_options_of_the_producer_are_passed_on(topics: Topics) -> None:
    bench("produce", "--records", "1", "--acks", "1", "--linger-ms", "2.5", "--compression", "zstd")
    assert PretendedProducer.made[0].options == {
        "acks": "1",
        "batch_bytes": 131_072,
        "linger_ms": 2.5,
        "compression": "zstd",
    }


def test_consuming_counts_records_and_the_bytes_of_their_values(
    topics: Topics, capsys: pytest.CaptureFixture[str]
) -> None:
    assert bench("consume", "--topic", "mine", "--records", "1000", "--max-poll-records", "300") == 0
    told = json.loads(capsys.readouterr().out)
    assert told["records"] == 1000
    assert told["mb_per_s"] == pytest.approx(told["records_per_s"] * 5 / 1e6, rel=0.01)


def test_a_topic_with_too_few_records_is_told(topics: Topics, capsys: pytest.CaptureFixture[str]) -> None:
    assert bench("consume", "--topic", "mine", "--records", "1001") == 1
    assert "mine has 1000 records, 1001 were asked for" in capsys.readouterr().err


def test_a_topic_made_for_consuming_is_filled_first(topics: Topics) -> None:
    assert bench("consume", "--records", "1000") == 0
    assert PretendedProducer.made[0].sent == 1000
    assert topics.deleted == topics.created


def test_percentiles_are_samples() -> None:
    found = percentiles_of([float(number) for number in range(1000)])
    assert tuple(found) == (500.0, 950.0, 990.0, 999.0, 999.0)
    assert tuple(percentiles_of([7.0])) == (7.0,) * 5
