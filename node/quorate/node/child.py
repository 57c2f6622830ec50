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
from quorate.node.process import READY_PREFIX

__all__ = ["ChildNode"]

_READY_TIMEOUT_S: Final = 60.0
_STOP_TIMEOUT_S: Final = 30.0
_LOG_TAIL_BYTES: Final = 2_000


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
        arguments = [f"--set={key}={value}" for key, value in settings.items()]
        # Settings in our own environment are for somebody else's node.
        not_passed_on = {each.environment_name for each in NODE_SETTINGS}
        environment = {key: value for key, value in os.environ.items() if key not in not_passed_on}
        descriptor = os.open(log_file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                *("-m", "quorate.console.main", "node", "run", *arguments),
                stdout=asyncio.subprocess.PIPE,
                stderr=descriptor,
                env=environment,
            )
        finally:
            os.close(descriptor)
        try:
            bootstrap = await _ready_line(process, log_file)
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


async def _ready_line(process: asyncio.subprocess.Process, log_file: str) -> str:
    assert process.stdout is not None
    try:
        line = (await asyncio.wait_for(process.stdout.readline(), _READY_TIMEOUT_S)).decode()
    except TimeoutError:
        line = ""
    if not line.startswith(READY_PREFIX):
        raise Unavailable(
            f"the node did not start; the end of its log:\n{_tail(log_file)}", log_file=log_file
        )
    return line.removeprefix(READY_PREFIX).strip()


def _tail(path: str) -> str:
    with open(path, "rb") as file:
        file.seek(max(0, os.path.getsize(path) - _LOG_TAIL_BYTES))
        return file.read().decode(errors="replace")


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        process.kill()
    await process.wait()
