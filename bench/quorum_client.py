"""A client that calls a controller as fast as it gets answers, in a process of its own.

Usage: python -m bench.quorum_client ADDRESS METHOD BROKER_ID BROKER_EPOCH SECONDS IN_FLIGHT

The method is AllocateProducerIds, which is a change and waits for its commit, or DescribeImage, which waits
for nothing: as fast as calls can be at all. Prints calls per second.
"""

from __future__ import annotations

import asyncio
import sys
import time
from typing import Any, Final

import uvloop
from google.protobuf.message import Message

from quorate.client.transport import client_transport
from quorate.core.transport import Method, methods_of
from quorate.errors import QuorateError
from quorate.v1 import controller_pb2

__all__: list[str] = []

_METHODS: Final = methods_of(controller_pb2.DESCRIPTOR.services_by_name["ControllerService"])
_PAUSE_S: Final = 1.0


async def calls_per_second(
    address: str, method: Method[Any, Any], request: Message, seconds: float, in_flight: int
) -> float:
    channel = client_transport().connect(address)
    calls = 0
    began = time.perf_counter()

    async def ask_again_and_again() -> None:
        nonlocal calls
        while time.perf_counter() < began + seconds:
            try:
                await channel.call(method, request, timeout_s=30)
            except QuorateError as error:
                # On a machine that stands still for a second, leadership moves; the figure will show it.
                print(error, file=sys.stderr)
                await asyncio.sleep(_PAUSE_S)
            else:
                calls += 1

    await asyncio.gather(*(ask_again_and_again() for _ in range(in_flight)))
    await channel.close()
    return calls / (time.perf_counter() - began)


def main() -> None:
    address, name, broker_id, broker_epoch, seconds, in_flight = sys.argv[1:]
    method = _METHODS[name]
    request = method.request_type()
    if isinstance(request, controller_pb2.AllocateProducerIdsRequest):
        request.broker_id, request.broker_epoch = int(broker_id), int(broker_epoch)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        print(runner.run(calls_per_second(address, method, request, float(seconds), int(in_flight))))


if __name__ == "__main__":
    main()
