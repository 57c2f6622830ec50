"""SIGUSR1: the process writes down what each of its threads and tasks is at, and goes on.

For whoever asks why a node does not answer, or does not stop. The threads are written by the interpreter's
own handler, which needs nothing to work, so also while the loop is stuck; the tasks by the loop, if it still
turns.
"""

from __future__ import annotations

import asyncio
import faulthandler
import io
import signal
import sys
from typing import Final

__all__ = ["STACK_DUMP_SIGNAL", "dump_stacks_on_signal"]

STACK_DUMP_SIGNAL: Final = signal.SIGUSR1

#: of each task; more says nothing that the lines nearest to where it waits do not say
_FRAMES_MAX: Final = 8


def dump_stacks_on_signal() -> None:
    """To standard error, where the log goes. To be called within the loop."""
    asyncio.get_running_loop().add_signal_handler(STACK_DUMP_SIGNAL, _dump_tasks)
    # Before the loop's: it is called for both.
    faulthandler.register(STACK_DUMP_SIGNAL, all_threads=True, chain=True)


def _dump_tasks() -> None:
    text = io.StringIO()
    for task in sorted(asyncio.all_tasks(), key=asyncio.Task.get_name):
        task.print_stack(limit=_FRAMES_MAX, file=text)
    # In one piece: lines of the log are written by others as well.
    sys.stderr.write(text.getvalue())
    sys.stderr.flush()
