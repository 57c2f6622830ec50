"""A node as a child process: started, waited for, stopped or killed."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Mapping
from typing import Final

from quorate.core.config.node import NODE_SETTINGS
from quorate.errors import Unavailable
from quorate.node.ready_line import READY_PREFIX

__all__ = ["ChildNode", "log_size", "log_tail", "node_command", "node_environment"]

_READY_TIMEOUT_S: Final = 60.0
_STOP_TIMEOUT_S: Final = 30.0
_LOG_TAIL_BYTES: Final = 2_000


def node_command(settings: Mapping[str, str]) -> list[str]:
    """``quorate node run`` with ``settings``."""
    arguments = [f"--set={key}={value}" for key, value in settings.items()]
    return [sys.executable, "-m", "quorate.console.main", "node", "run", *arguments]


def node_environment() -> dict[str, str]:
    """Ours, without the settings in it: those are for somebody else's node.

    What a process speaks through is nobody's own: whoever chooses it means all that is started from there.
    """
    not_passed_on = {each.environment_name for each in NODE_SETTINGS if each.key != "rpc.transport"}
    return {key: value for key, value in os.environ.items() if key not in not_passed_on}


def log_size(path: str) -> int:
    """Where the log of a process begins that is about to be started."""
    return os.path.getsize(path) if os.path.exists(path) else 0


def log_tail(path: str, since: int = 0) -> str:
    """The last lines of a node's log, none of them from before byte ``since``."""
    with open(path, "rb") as file:
        skipped = max(since, os.path.getsize(path) - _LOG_TAIL_BYTES)
        file.seek(skipped)
        if skipped > since:
            file.readline()  # what is left of a line that began before
        return file.read().decode(errors="replace").rstrip()


class ChildNode:
    """Made by ``start``; its standard error goes to ``log_file``."""

    def __init__(self, process: asyncio.subprocess.Process, bootstrap: str, log_file: str) -> None:
        """For ``start``."""
        self._process = process
        self.bootstrap = bootstrap
        self.log_file = log_file

    @classmethod
    async def start(cls, settings: Mapping[str, str], *, log_file: str) -> ChildNode:
        """Run ``quorate node run`` with ``settings``; returns once it serves."""
        log_start = log_size(log_file)
        descriptor = os.open(log_file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            process = await asyncio.create_subprocess_exec(
                *node_command(settings),
                stdout=asyncio.subprocess.PIPE,
                stderr=descriptor,
                env=node_environment(),
            )
        finally:
            os.close(descriptor)
        try:
            bootstrap = await _ready_line(process, log_file, log_start)
        except BaseException:
            await _end(process)
            raise
        return cls(process, bootstrap, log_file)

    @property
    def pid(self) -> int:
        return self._process.pid

    async def kill(self) -> None:
        """kill -9: the process ends where it stands."""
        self._process.kill()
        await self._process.wait()

    async def stop(self) -> int:
        """SIGTERM; returns the exit status."""
        self._process.send_signal(signal.SIGTERM)
        return await asyncio.wait_for(self._process.wait(), _STOP_TIMEOUT_S)

    async def end(self) -> None:
        """However it stands: make sure that it is gone."""
        await _end(self._process)


async def _ready_line(process: asyncio.subprocess.Process, log_file: str, log_start: int) -> str:
    assert process.stdout is not None
    try:
        line = (await asyncio.wait_for(process.stdout.readline(), _READY_TIMEOUT_S)).decode()
    except TimeoutError:
        line = ""
    if not line.startswith(READY_PREFIX):
        raise Unavailable(
            f"the node did not start; the end of its log:\n{log_tail(log_file, log_start)}",
            log_file=log_file,
        )
    return line.removeprefix(READY_PREFIX).strip()


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        process.kill()
    await process.wait()
