"""Running other programs, and telling what they said when they fail."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from typing import Final

__all__ = ["CannotTest", "has_program", "run", "say"]

#: of what a failed program said: the end is where the reason is
_LINES_MAX: Final = 30


class CannotTest(Exception):
    """What is needed cannot be had here, or does not do what it should. The message says which."""


def say(step: str, text: str) -> None:
    sys.stdout.write(f"{step:<8} {text}\n")
    sys.stdout.flush()


def has_program(name: str) -> bool:
    return shutil.which(name) is not None


async def run(
    *command: str,
    environment: Mapping[str, str] | None = None,
    text: str = "",
    timeout_s: float = 600.0,
    is_checked: bool = True,
    has_errors: bool = True,
) -> str:
    """What it printed. ``text``: its standard input. ``is_checked``: a failure ends the test.

    ``has_errors``: with what it printed to standard error; otherwise that is told only if it fails.
    """
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT if has_errors else subprocess.PIPE,
        env={**os.environ, **(environment or {})},
    )
    try:
        out, errors = await asyncio.wait_for(process.communicate(text.encode()), timeout_s)
    except TimeoutError:
        process.kill()
        await process.wait()
        raise CannotTest(f"{' '.join(command)}: not done after {timeout_s:g} s") from None
    told = out.decode(errors="replace")
    if is_checked and process.returncode != 0:
        both = told if errors is None else told + errors.decode(errors="replace")
        end = "\n".join(both.splitlines()[-_LINES_MAX:])
        raise CannotTest(f"{' '.join(command)}: exit status {process.returncode}\n{end}")
    return told
