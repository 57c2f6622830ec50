"""Three stock pysyncobj voters on loopback, as real processes: started, asked, killed."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Final

__all__ = ["VOTERS", "VoterProcess", "free_addresses", "running_voters", "the_leader"]

VOTERS: Final = 3
_ANSWER_TIMEOUT_S: Final = 60.0
_BETWEEN_QUESTIONS_S: Final = 0.05
_DUMP_S_MAX: Final = 1.0
#: a state of ten thousands of commands is one line
_LINE_BYTES_MAX: Final = 64 * 1024 * 1024


class VoterProcess:
    """A child that runs ``voter_process``. What it acknowledged before it was killed stays known here."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._answers: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.acknowledged: list[str] = []
        self._reader = asyncio.create_task(self._read())

    @classmethod
    async def start(
        cls,
        number: int,
        addresses: Sequence[str],
        *,
        configuration: Mapping[str, object],
        tick_s: float,
        under: Sequence[str] = (),
    ) -> VoterProcess:
        """``under``: a command that runs the voter's command, as strace does."""
        address = addresses[number]
        arguments = {
            "address": address,
            "others": [other for other in addresses if other != address],
            "configuration": configuration,
            "tick_s": tick_s,
        }
        command = [sys.executable, "-m", "quorate.chaos.raft_control.voter_process", json.dumps(arguments)]
        process = await asyncio.create_subprocess_exec(
            *under,
            *command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            limit=_LINE_BYTES_MAX,
        )
        return cls(process)

    def tell(self, request: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(request.encode() + b"\n")

    async def ask(self, request: str) -> dict[str, Any]:
        self.tell(request)
        async with asyncio.timeout(_ANSWER_TIMEOUT_S):
            return await self._answers.get()

    async def kill(self) -> None:
        """With SIGKILL; what it had said by then is read."""
        self._process.kill()
        await self._process.wait()
        # A dump is written by a forked child, which holds the pipe open for as long as it lives.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_DUMP_S_MAX):
                await self._reader

    async def _read(self) -> None:
        assert self._process.stdout is not None
        while line := await self._process.stdout.readline():
            # The last line may be cut by the death of the voter.
            answer = json.loads(line) if line.endswith(b"\n") else {}
            if "acknowledged" in answer:
                self.acknowledged.append(answer["acknowledged"])
            elif answer:
                self._answers.put_nowait(answer)


def free_addresses() -> list[str]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(VOTERS)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [f"127.0.0.1:{each.getsockname()[1]}" for each in sockets]


@contextlib.asynccontextmanager
async def running_voters(
    addresses: Sequence[str],
    directory: str | None,
    *,
    configuration: Mapping[str, object],
    tick_s: float,
    under: Sequence[Sequence[str]] = ((), (), ()),
) -> AsyncIterator[list[VoterProcess]]:
    """All of them; killed at the end, if they are not gone by then. Without a directory, all in memory."""
    voters = [
        await VoterProcess.start(
            number,
            addresses,
            configuration={**configuration, **_files(directory, number)},
            tick_s=tick_s,
            under=under[number],
        )
        for number in range(VOTERS)
    ]
    try:
        yield voters
    finally:
        for voter in voters:
            with contextlib.suppress(ProcessLookupError):
                await voter.kill()


def _files(directory: str | None, number: int) -> dict[str, str]:
    if directory is None:
        return {}
    path = os.path.join(directory, str(number))
    return {"journalFile": f"{path}.journal", "fullDumpFile": f"{path}.dump"}


async def the_leader(voters: Sequence[VoterProcess]) -> VoterProcess:
    """Waits until there is one, and it has applied all that it knows to be committed."""
    async with asyncio.timeout(_ANSWER_TIMEOUT_S):
        while True:
            status = [await voter.ask("status") for voter in voters]
            leaders = [voter for voter, its in zip(voters, status, strict=True) if its["is_leader"]]
            if len(leaders) == 1 and status[voters.index(leaders[0])]["is_ready"]:
                return leaders[0]
            await asyncio.sleep(_BETWEEN_QUESTIONS_S)
