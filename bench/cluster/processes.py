"""Clients in processes of their own: started, read, and never left behind."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any, Final

__all__ = ["ClientFailed", "output_of", "running", "tell"]

_LINE_BYTES_MAX: Final = 64 << 20
_TIMEOUT_S: Final = 600.0


class ClientFailed(Exception):
    """The command, and what it said."""


@contextlib.asynccontextmanager
async def running(
    *command: str, stdin: int | None = None, stderr: int | None = asyncio.subprocess.PIPE
) -> AsyncIterator[asyncio.subprocess.Process]:
    """Its standard output can be read. It is killed at the end if it still runs.

    ``stdin``, ``stderr``: as ``create_subprocess_exec`` has them; None is our own.
    """
    process = await asyncio.create_subprocess_exec(
        *command, stdin=stdin, stdout=asyncio.subprocess.PIPE, stderr=stderr, limit=_LINE_BYTES_MAX
    )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.communicate()


async def output_of(*command: str) -> str:
    """All that it printed, once it ended well."""
    async with running(*command) as process, asyncio.timeout(_TIMEOUT_S):
        output, errors = await process.communicate()
    if process.returncode != 0:
        said = (output + errors).decode(errors="replace")[-4000:]
        raise ClientFailed(f"{' '.join(command)}: exit status {process.returncode}\n{said}")
    return output.decode()


async def tell(*command: str) -> dict[str, Any]:
    """The JSON document that it printed."""
    document: dict[str, Any] = json.loads(await output_of(*command))
    return document
