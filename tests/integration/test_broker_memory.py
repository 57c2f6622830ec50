"""A real broker whose clients send ten times what it may hold: its memory stays where it was."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

from quorate.core.transport import method_of
from quorate.errors import Overloaded, QuorateError
from quorate.rpc.grpcio_transport import GrpcioTransport
from quorate.v1 import broker_pb2, records_pb2
from tests.integration.trials import Trial, trial

_SERVICE: Final = broker_pb2.DESCRIPTOR.services_by_name["BrokerService"]
_PRODUCE: Final = method_of(_SERVICE, "Produce", broker_pb2.ProduceRequest, broker_pb2.ProduceResponse)
_STREAM: Final = method_of(
    _SERVICE, "ProduceStream", broker_pb2.ProduceStreamRequest, broker_pb2.ProduceStreamResponse
)

_BOUND_BYTES: Final = 8 << 20
_RECORD_BYTES: Final = 512 << 10
_REQUESTS: Final = 10 * _BOUND_BYTES // _RECORD_BYTES
_STREAMS: Final = 4
#: Nobody leaves the ISR meanwhile, so acknowledgements wait for the follower that stands still.
_PATIENT: Final = {
    "broker.session.timeout.ms": "10min",
    "replica.lag.time.max.ms": "10min",
    "queued.max.request.bytes": str(_BOUND_BYTES),
}


def a_request() -> broker_pb2.ProduceRequest:
    entry = broker_pb2.ProducePartition(topic="t", records=[records_pb2.Record(value=bytes(_RECORD_BYTES))])
    return broker_pb2.ProduceRequest(acks=broker_pb2.ACKS_ALL, timeout_ms=120_000, partitions=[entry])


def resident_bytes(drill: Trial, name: str, what: str = "VmHWM") -> int:
    """The most that it ever was."""
    process = drill.cluster.node(name).process
    assert process is not None
    lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
    [line] = [line for line in lines if line.startswith(f"{what}:")]
    return int(line.split()[1]) << 10
