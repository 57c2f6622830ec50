"""``python -m quorate.chaos.demo``: real processes, real files, real kill -9.

Exit status 0 only if the proof held.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import sys
import tempfile
from typing import Final

from rich.console import Console

from quorate.chaos.demo.demonstration import Demonstration
from quorate.core.logging import LogLevel, configure_logging
from quorate.errors import QuorateError
from quorate.node.interruption import INTERRUPTED_STATUS, run_interruptible

__all__ = ["main"]

#: it takes a fraction of this; a cluster that hangs must not hang the demonstration
_TIMEOUT_S: Final = 180.0


async def _demonstrate(seconds: float) -> bool:
    directory = tempfile.mkdtemp(prefix="quorate-demo-")
    try:
        async with asyncio.timeout(_TIMEOUT_S):
            holds = await Demonstration(Console(), directory, seconds).run()
    except asyncio.CancelledError:
        shutil.rmtree(directory)
        raise
    except TimeoutError:
        sys.stderr.write(f"not done after {_TIMEOUT_S:g} s; the files are kept in {directory}\n")
        return False
    except BaseException:
        sys.stderr.write(f"the files are kept in {directory}\n")
        raise
    if holds:
        shutil.rmtree(directory)
    return holds


def _run(seconds: float) -> int:
    try:
        return 0 if run_interruptible(_demonstrate(seconds)) else 1
    except QuorateError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m quorate.chaos.demo", description=__doc__)
    parser.add_argument(
        "--seconds", type=float, default=2.0, help="how long to write before, between and after the kills"
    )
    arguments = parser.parse_args()
    # The deaths of nodes are what the demonstration is about; the clients need not remark on them.
    configure_logging(level=LogLevel.ERROR)
    try:
        return _run(arguments.seconds)
    except KeyboardInterrupt:
        return INTERRUPTED_STATUS


if __name__ == "__main__":
    sys.exit(main())
