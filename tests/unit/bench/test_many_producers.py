"""Producers that wait for each of their records are counted from when all are connected."""

from __future__ import annotations

import json

import pytest

from bench.cluster import many_producers
from tests.unit.client.null_broker import NullBroker


async def test_many_producers_tell_how_many_records_were_acknowledged(
    capsys: pytest.CaptureFixture[str],
) -> None:
    broker = NullBroker()
    address = await broker.start()
    await many_producers.main(address, "t", 3, 100, [0.0, 0.2])
    await broker.stop()
    told = json.loads(capsys.readouterr().out)
    assert told["records_per_s"] > 0
    assert broker.next_offsets["t", 0] > 3, "the first of each producer is not counted"
