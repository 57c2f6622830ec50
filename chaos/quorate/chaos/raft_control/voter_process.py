"""One stock pysyncobj voter as a process of its own, which a parent steers line by line.

Usage: python -m quorate.chaos.raft_control.voter_process '{"address": ..., "others": [...], ...}'

Requests on standard input, one answer or more on standard output, each line JSON:

    status              {"is_leader": ..., "is_ready": ...}
    load NAME COUNT     keeps COUNT commands in flight, named NAME.0, NAME.1, ...; each {"acknowledged": name}
    rest                starts no more commands
    sequential COUNT    one command after the other, then {"latencies_s": [...]}
    state               {"state": [names of all that was applied]}
"""

from __future__ import annotations

import json
import os
import select
import sys
import time
from typing import Any

from quorate.chaos.raft_control.pysyncobj_package import load_pysyncobj

__all__ = ["main"]


class _VoterProcess:
    def __init__(self, arguments: dict[str, Any]) -> None:
        library = load_pysyncobj()
        configuration = library.SyncObjConf(
            autoTick=False, bindAddress=arguments["address"], **arguments["configuration"]
        )
        self._commands = library.batteries.ReplList()
        self._object = library.SyncObj(
            arguments["address"], arguments["others"], configuration, consumers=[self._commands]
        )
        self._tick_s: float = arguments["tick_s"]
        self._name = ""
        self._in_flight_max = 0
        self._in_flight = 0
        self._proposed = 0
        self._unread = b""
        self._sequential_left = 0
        self._proposed_at = 0.0
        self._latencies_s: list[float] = []

    def run(self) -> None:
        """Until standard input ends."""
        os.set_blocking(sys.stdin.fileno(), False)
        while self._read_requests():
            while self._in_flight < self._in_flight_max:
                self._propose()
            self._object.doTick(self._tick_s)

    def _read_requests(self) -> bool:
        if not select.select([sys.stdin.fileno()], [], [], 0)[0]:
            return True
        received = os.read(sys.stdin.fileno(), 65_536)
        *lines, self._unread = (self._unread + received).split(b"\n")
        for line in lines:
            request, *arguments = line.decode().split()
            getattr(self, f"_on_{request}")(*arguments)
        return bool(received)

    def _on_status(self) -> None:
        _answer({"is_leader": self._object._isLeader(), "is_ready": self._object.isReady()})  # noqa: SLF001  its own example uses it so

    def _on_load(self, name: str, count: str) -> None:
        self._name, self._in_flight_max = name, int(count)

    def _on_rest(self) -> None:
        self._in_flight_max = 0

    def _on_state(self) -> None:
        _answer({"state": self._commands.rawData()})

    def _on_sequential(self, count: str) -> None:
        self._sequential_left = int(count)
        self._propose_in_sequence()

    def _propose(self) -> None:
        command = f"{self._name}.{self._proposed}"
        self._proposed += 1
        self._in_flight += 1

        def answered(_result: object, failure: int) -> None:
            self._in_flight -= 1
            if failure == 0:
                _answer({"acknowledged": command})

        self._commands.append(command, callback=answered)

    def _propose_in_sequence(self) -> None:
        self._proposed_at = time.perf_counter()
        self._commands.append(f"sequential.{self._sequential_left}", callback=self._answered_in_sequence)

    def _answered_in_sequence(self, _result: object, failure: int) -> None:
        assert failure == 0, f"the only leader refused a command: {failure}"
        self._latencies_s.append(time.perf_counter() - self._proposed_at)
        self._sequential_left -= 1
        if self._sequential_left:
            self._propose_in_sequence()
        else:
            _answer({"latencies_s": self._latencies_s})
            self._latencies_s = []


def _answer(answer: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


def main() -> None:
    _VoterProcess(json.loads(sys.argv[1])).run()


if __name__ == "__main__":
    main()
