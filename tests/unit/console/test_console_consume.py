"""``quorate consume`` against a broker whose only partition ends at offset 3 and holds nothing to fetch."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from quorate.console import consuming
from quorate.console.main import main
from quorate.v1 import admin_pb2, broker_pb2


class EndedBroker:
    async def describe_topic(self, name: str) -> admin_pb2.TopicDescription:
        return admin_pb2.TopicDescription(name=name, partitions=[admin_pb2.PartitionDescription()])

    async def list_offsets(self, _request: broker_pb2.ListOffsetsRequest) -> broker_pb2.ListOffsetsResponse:
        end = broker_pb2.ListOffsetsPartitionResult(partition=0, offset=3)
        return broker_pb2.ListOffsetsResponse(partitions=[end])


@pytest.mark.parametrize(("start", "status"), [("3", 0), ("4", 1), ("999", 1)])
def test_start_beyond_the_end_is_refused_though_there_is_nothing_to_read(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], start: str, status: int
) -> None:
    def with_broker(_bootstrap: str, work: Callable[[Any], Awaitable[None]]) -> None:
        async def run() -> None:
            await work(EndedBroker())

        asyncio.run(run())

    monkeypatch.setattr(consuming, "with_connection", with_broker)
    assert main(["consume", "t", "--from", start, "--exit-at-end"]) == status
    assert ("OFFSET_OUT_OF_RANGE" in capsys.readouterr().err) == (status == 1)
