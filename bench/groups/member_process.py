"""Members of a group as processes: joined, made to leave, killed; and what arrived at each."""

from __future__ import annotations

import asyncio
import json
import signal
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import IO, Any, Final

from bench.cluster.processes import ClientFailed
from bench.groups.arrivals import Arrival, ArrivalReader
from bench.peers.tools import ROOT

__all__ = ["LineProcess", "MemberProcess", "line_process"]

_TIMEOUT_S: Final = 60.0
_SAID_MAX: Final = 4_000


class LineProcess:
    """A client that is told lines, and says JSON documents."""

    def __init__(self, process: asyncio.subprocess.Process, errors: IO[bytes]) -> None:
        self._process = process
        self._errors = errors

    @property
    def is_running(self) -> bool:
        return self._process.returncode is None

    async def ready(self) -> None:
        await self.said()

    async def said(self, timeout_s: float = _TIMEOUT_S) -> dict[str, Any]:
        assert self._process.stdout is not None
        try:
            async with asyncio.timeout(timeout_s):
                line = await self._process.stdout.readline()
        except TimeoutError:
            raise self._failed(f"said nothing for {timeout_s:g} s") from None
        if not line:
            raise self._failed("ended")
        document: dict[str, Any] = json.loads(line)
        return document

    def tell(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line.encode() + b"\n")

    async def kill(self) -> float:
        """When the signal was sent."""
        at_s = time.monotonic()
        with suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGKILL)
        await self._process.wait()
        return at_s

    async def ended(self) -> None:
        async with asyncio.timeout(_TIMEOUT_S):
            await self._process.wait()

    def _failed(self, what: str) -> ClientFailed:
        self._errors.seek(0)
        said = self._errors.read().decode(errors="replace")[-_SAID_MAX:]
        return ClientFailed(f"a client {what}:\n{said}")


@asynccontextmanager
async def line_process(*command: str) -> AsyncIterator[LineProcess]:
    """It is killed at the end if it still runs."""
    with tempfile.TemporaryFile() as errors:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=errors,
            cwd=ROOT,
            limit=64 << 20,
            # Ctrl-C is for us, and we end it.
            start_new_session=True,
        )
        started = LineProcess(process, errors)
        try:
            yield started
        finally:
            await started.kill()


class MemberProcess:
    """A process around `bench.groups.member_program`."""

    def __init__(self, name: str, process: LineProcess, path: str) -> None:
        self.name = name
        self.process = process
        #: where it writes
        self.path = path
        self._arrivals = ArrivalReader(path)

    def arrivals(self) -> Sequence[Arrival]:
        """Since the last call."""
        return self._arrivals.new()

    async def join(self) -> float:
        """When it called."""
        self.process.tell("join")
        return float((await self.process.said())["at_s"])

    async def leave(self) -> float:
        """When it called; it has left."""
        self.process.tell("leave")
        at_s = float((await self.process.said())["at_s"])
        await self.process.ended()
        return at_s

    async def kill(self) -> float:
        return await self.process.kill()
