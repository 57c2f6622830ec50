"""A simulated process: code that can be stopped at any await, for a while or for ever.

Everything that a process does on the event loop carries the process in its context: a task inherits the
context of whoever made it, a callback that of whoever scheduled it. So the loop knows whose turn it is.
To freeze a process is to keep its turns back: nothing of it runs, not even a ``finally``, exactly as after
SIGSTOP; thawed, they run in their old order, and timers that were due meanwhile run late. A process that is
killed stays frozen until the simulation is over; then its coroutines are unwound, when that cannot matter.

A process that is frozen or killed at a given time is found asleep, since time passes only when nobody has
anything to do: it would always survive every await that takes no time. ``ambush`` waits for one
of its turns, and springs in the middle of an instant.

Cancelling the tasks of a process instead was rejected: cancellation runs code, which kill -9 does not.

What is in flight belongs to nobody: the network delivers in a context without a process.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import Context, ContextVar, copy_context
from typing import TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    from quorate.chaos.sim.loop import SimLoop

__all__ = ["CURRENT_PROCESS", "SimProcess", "process_in"]

T = TypeVar("T")

CURRENT_PROCESS: Final[ContextVar[SimProcess | None]] = ContextVar("simulated_process", default=None)


class SimProcess:
    def __init__(self, name: str) -> None:
        self.name = name
        self.is_frozen = False
        self.is_dead = False
        #: turns that came while it was frozen
        self.held: list[asyncio.Handle] = []
        #: somebody waits for one of its turns: only then the loop tells of them
        self.is_ambushed = False
        self._turns_left = 0
        self._spring: Callable[[], None] | None = None

    def __repr__(self) -> str:
        return f"<SimProcess {self.name}>"

    def start(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """The process's main task; all that it starts belongs to the process."""
        return self._context().run(asyncio.get_running_loop().create_task, work)

    def ambush(self, turns: int, spring: Callable[[], None]) -> None:
        """``spring`` is called at the last of so many turns, before it is run.

        Turns that come while it is frozen do not count: there is nothing to interrupt then.
        """
        assert turns > 0
        self.is_ambushed, self._turns_left, self._spring = True, turns, spring

    def disarm(self) -> None:
        self.is_ambushed, self._spring = False, None

    def turn_came(self) -> None:
        """For the loop, while it ``is_ambushed``."""
        if self.is_frozen:
            return
        self._turns_left -= 1
        if self._turns_left == 0:
            spring = self._spring
            assert spring is not None
            self.disarm()
            spring()

    def freeze(self) -> None:
        self.is_frozen = True

    def thaw(self, loop: SimLoop) -> None:
        if self.is_dead:
            return
        self._release(loop)

    def kill(self) -> None:
        self.is_frozen = self.is_dead = True

    def unwind(self, loop: SimLoop) -> None:
        """The simulation is over: let the coroutines of a killed process end."""
        self._release(loop)

    def _release(self, loop: SimLoop) -> None:
        self.is_frozen = False
        held, self.held = self.held, []
        loop.run_soon(held)

    def _context(self) -> Context:
        context = copy_context()
        context.run(CURRENT_PROCESS.set, self)
        return context


def process_in(context: Context | None) -> SimProcess | None:
    """Whose turn it is that runs in this context; ``None`` for a context: the current one."""
    return CURRENT_PROCESS.get() if context is None else context.get(CURRENT_PROCESS)
