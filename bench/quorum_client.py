"""A client that asks for changes as fast as it gets answers, in a process of its own.

Usage: python -m bench.quorum_client ADDRESS BROKER_ID BROKER_EPOCH SECONDS IN_FLIGHT

Prints changes per second.
"""

from __future__ import annotations

import asyncio
import sys
import time
from typing import Final

import uvloop

from quorate.core.transport import method_of
from quorate.errors import QuorateError
from quorate.rpc.grpcio_transport import GrpcioTransport
from quorate.v1 import controller_pb2

__all__: list[str] = []

_ALLOCATE: Final = method_of(
    controller_pb2.DESCRIPTOR.services_by_name["ControllerService"],
    "AllocateProducerIds",
    controller_pb2.AllocateProducerIdsRequest,
    controller_pb2.AllocateProducerIdsResponse,
)
_PAUSE_S: Final = 1.0


async def changes_per_second(
    address: str, request: controller_pb2.AllocateProducerIdsRequest, seconds: float, in_flight: int
) -> float:
    channel = GrpcioTransport().connect(address)
    changes = 0
    began = time.perf_counter()

    async def ask_again_and_again() -> None:
        nonlocal changes
        while time.perf_counter() < began + seconds:
            try:
                await channel.call(_ALLOCATE, request, timeout_s=30)
            except QuorateError as error:
                # On a machine that stands still for a second, leadership moves; the figure will show it.
                print(error, file=sys.stderr)
                await asyncio.sleep(_PAUSE_S)
            else:
                changes += 1

    await asyncio.gather(*(ask_again_and_again() for _ in range(in_flight)))
    await channel.close()
    return changes / (time.perf_counter() - began)


def main() -> None:
    address, broker_id, broker_epoch, seconds, in_flight = sys.argv[1:]
    request = controller_pb2.AllocateProducerIdsRequest(
        broker_id=int(broker_id), broker_epoch=int(broker_epoch)
    )
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        print(runner.run(changes_per_second(address, request, float(seconds), int(in_flight))))


if __name__ == "__main__":
    main()
