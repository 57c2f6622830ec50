"""A voter that measures its own commits, as a process that a parent steers line by line.

It is made of what a controller is made of: the quorum, the image as its state machine, and the active
controller that decides. What a controller has beside that (services for brokers and people) is left out: it
has no part in a commit.

Usage: python -m bench.quorum_voter NODE_ID VOTERS DIRECTORY

Requests on standard input, each answered by one line of JSON on standard output:

    status                    {"is_active": ...}
    latencies COUNT PEER      {"sync_s": [...], "round_trip_s": [...], "commit_s": [...]}
    rate SECONDS IN_FLIGHT    {"changes": ..., "seconds": ...}
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any, Final, NoReturn

import uvloop

from quorate.client.transport import client_transport
from quorate.controller.active import ActiveController
from quorate.controller.decision import Decision
from quorate.controller.duties import found_metadata
from quorate.controller.state_machine import ImageStateMachine
from quorate.core.clock import SystemClock
from quorate.core.config import VoterAddress
from quorate.core.config.kinds import VoterList
from quorate.core.ids import ProducerId
from quorate.core.os_disk import OsDisk
from quorate.metadata.image import MetadataImage
from quorate.metadata.publisher import MetadataPublisher
from quorate.metadata.raft.founding_driver import IDENTIFY
from quorate.metadata.raft.quorum import Quorum
from quorate.metadata.raft.quorum_config import QuorumConfig
from quorate.metadata.raft.voters import NodeId
from quorate.metadata.records import producer_ids_record
from quorate.v1 import quorum_pb2

__all__: list[str] = []

#: about as much as a small change makes in the journal
_SMALL_APPEND: Final = bytes(range(100))
_WARM_UP: Final = 50
_CALL_TIMEOUT_S: Final = 10.0


def _next_block(image: MetadataImage, _offset: int) -> Decision[None]:
    """A small change: one record, of which every one is different."""
    return Decision((producer_ids_record(ProducerId(image.next_producer_id + 1_000)),), None)


class _Voter:
    def __init__(self, node_id: NodeId, voters: tuple[VoterAddress, ...], directory: str) -> None:
        self._config = QuorumConfig(node_id=node_id, directory=f"{directory}/quorum", voters=voters)
        self._directory = directory
        self._transport = client_transport()
        self._active_controller: ActiveController | None = None

    @property
    def _active(self) -> ActiveController:
        assert self._active_controller is not None
        return self._active_controller

    def _begin(self, _image: MetadataImage) -> None:
        self._active.change_unattended(lambda image, _offset: found_metadata(image, cluster_id="bench"))

    # --- the process ---

    async def run(self) -> None:
        """Until standard input ends."""
        state_machine = ImageStateMachine(MetadataPublisher(SystemClock()))
        quorum = await Quorum.open(
            config=self._config,
            clock=SystemClock(),
            disk=OsDisk(),
            transport=self._transport,
            random_bytes=os.urandom,
            on_fatal=_die,
            state_machine=state_machine,
        )
        self._active_controller = ActiveController(
            quorum,
            clock=SystemClock(),
            on_begin=self._begin,
            on_appended=lambda _image: None,
            on_fatal=_die,
        )
        state_machine.tell(self._active)
        await self._transport.serve(self._config.own_address, quorum.services())
        running = asyncio.create_task(quorum.run())
        requests = await _standard_input()
        while line := await requests.readline():
            name, *arguments = line.decode().split()
            answer = await getattr(self, f"_on_{name}")(*arguments)
            sys.stdout.write(json.dumps(answer) + "\n")
            sys.stdout.flush()
        running.cancel()

    async def _on_status(self) -> dict[str, Any]:
        return {"is_active": self._active.is_active}

    async def _on_latencies(self, count: str, peer: str) -> dict[str, Any]:
        """In turns, so that whatever disturbs the machine disturbs all three."""
        measured: dict[str, list[float]] = {"sync_s": [], "round_trip_s": [], "commit_s": []}
        channel = self._transport.connect(peer)
        descriptor = os.open(f"{self._directory}/small-appends", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        for _ in range(_WARM_UP + int(count)):
            began = time.perf_counter()
            os.write(descriptor, _SMALL_APPEND)
            os.fdatasync(descriptor)
            synced = time.perf_counter()
            await channel.call(IDENTIFY, quorum_pb2.IdentifyRequest(), timeout_s=_CALL_TIMEOUT_S)
            answered = time.perf_counter()
            await self._active.change(_next_block)
            committed = time.perf_counter()
            measured["sync_s"].append(synced - began)
            measured["round_trip_s"].append(answered - synced)
            measured["commit_s"].append(committed - answered)
        os.close(descriptor)
        await channel.close()
        return {name: values[_WARM_UP:] for name, values in measured.items()}

    async def _on_rate(self, seconds: str, in_flight: str) -> dict[str, Any]:
        began = time.perf_counter()
        end = began + float(seconds)
        changes = 0

        async def change_again_and_again() -> None:
            nonlocal changes
            while time.perf_counter() < end:
                await self._active.change(_next_block)
                changes += 1

        await asyncio.gather(*(change_again_and_again() for _ in range(int(in_flight))))
        return {"changes": changes, "seconds": time.perf_counter() - began}


def _die(reason: str) -> NoReturn:
    sys.stderr.write(f"{reason}\n")
    os._exit(1)


async def _standard_input() -> asyncio.StreamReader:
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    return reader


def main() -> None:
    node_id, voters, directory = sys.argv[1:]
    voter = _Voter(NodeId(int(node_id)), VoterList().parse(voters), directory)
    make_loop: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    with asyncio.Runner(loop_factory=make_loop) as runner:
        runner.run(voter.run())


if __name__ == "__main__":
    main()
