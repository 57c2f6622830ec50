"""``quorate produce`` against a broker that only counts."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from quorate.console import producing
from quorate.console.main import main
from quorate.core.records import decode_batch
from quorate.v1 import admin_pb2, broker_pb2

LIMIT = 1_000


class CountingBroker:
    """Stands in for a connection to a topic of two partitions."""

    def __init__(self) -> None:
        self.requests: list[broker_pb2.ProduceRequest] = []
        self.error: BaseException | None = None

    async def describe_topic(self, name: str) -> admin_pb2.TopicDescription:
        limit = admin_pb2.ConfigEntry(name="max.message.bytes", value=str(LIMIT))
        partitions = [admin_pb2.PartitionDescription(partition=each) for each in range(2)]
        return admin_pb2.TopicDescription(name=name, configs=[limit], partitions=partitions)

    async def produce(self, request: broker_pb2.ProduceRequest) -> broker_pb2.ProduceResponse:
        if self.requests and self.error is not None:
            raise self.error
        self.requests.append(request)
        response = broker_pb2.ProduceResponse()
        for each in request.partitions:
            response.partitions.add(topic=each.topic, partition=each.partition, base_offset=0)
        return response

    def values(self) -> list[bytes | None]:
        batches = [each.batch for request in self.requests for each in request.partitions]
        return [record.value for batch in batches for record in decode_batch(batch)]


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> CountingBroker:
    broker = CountingBroker()

    def with_broker(_bootstrap: str, work: Callable[[Any], Awaitable[None]]) -> None:
        async def run() -> None:
            await work(broker)

        asyncio.run(run())

    monkeypatch.setattr(producing, "with_connection", with_broker)
    return broker


@pytest.fixture
def produce(tmp_path: Path) -> Callable[..., int]:
    def run(content: bytes, *options: str) -> int:
        path = tmp_path / "lines"
        path.write_bytes(content)
        return main(["produce", "t", "--file", str(path), *options])

    return run


@pytest.mark.parametrize("compression", ["none", "snappy"])
def test_lines_are_split_into_batches_below_the_topics_limit(
    broker: CountingBroker, produce: Callable[..., int], compression: str
) -> None:
    lines = [b"%d:" % number + bytes(range(11, 211)) for number in range(50)]
    assert produce(b"\n".join(lines), "--partition", "0", "--compression", compression) == 0
    assert broker.values() == lines
    assert len(broker.requests) > 1
    assert all(each.ByteSize() < LIMIT + 100 for each in broker.requests)


def test_single_line_above_the_limit_is_refused_by_number_after_those_before_it(
    broker: CountingBroker, produce: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert produce(b"a\nb\n" + b"x" * LIMIT + b"\nc\n", "--partition", "0") == 1
    assert broker.values() == [b"a", b"b"]
    summary, error, _ = capsys.readouterr().err.splitlines()
    assert summary == "2 record(s) acknowledged (lines 1..2)"
    assert error.startswith("error: MESSAGE_TOO_LARGE: line 3 ")


def test_long_line_that_compresses_well_is_legal(broker: CountingBroker, produce: Callable[..., int]) -> None:
    assert produce(b"x" * 100 * LIMIT, "--compression", "gzip") == 0
    assert broker.values() == [b"x" * 100 * LIMIT]


def test_lines_before_one_without_a_key_are_written(
    broker: CountingBroker, produce: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert produce(b"k:a\nk:b\nnone\nk:c\n", "--key-separator", ":", "--quiet") == 1
    assert broker.values() == [b"a", b"b"]
    summary, error, _ = capsys.readouterr().err.splitlines()
    assert summary == "2 record(s) acknowledged (lines 1..2)"
    assert error.startswith("error: INVALID_RECORD: line 3 has no key")


@pytest.mark.parametrize(("error", "status"), [(KeyboardInterrupt(), 130), (BrokenPipeError(32, "gone"), 1)])
def test_what_was_acknowledged_is_told_however_it_ends(
    broker: CountingBroker,
    produce: Callable[..., int],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    error: BaseException,
    status: int,
) -> None:
    monkeypatch.setattr(producing, "forget_standard_output", lambda: None)
    broker.error = error
    assert produce(b"\n".join([b"x" * 600] * 3)) == status
    assert "1 record(s) acknowledged (lines 1..1)" in capsys.readouterr().err


def test_records_without_acknowledgement_are_not_called_acknowledged(
    broker: CountingBroker, produce: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert produce(b"a\n", "--acks", "0") == 0
    assert len(broker.requests) == 1
    assert capsys.readouterr().err == "1 record(s) sent (lines 1..1) in t\n"
