"""Time that passes only when there is nothing else to do.

``SimLoop`` is an asyncio event loop without sockets, threads or waiting: when no callback is ready it
jumps to the next timer. An hour of a cluster's life costs what its events cost, and the same program
with the same seed does the same things in the same order, every time.

What that takes beside the virtual clock:

- Sets of tasks and futures are ordered by their hash, by default their address; ``TaskGroup`` cancels
  its tasks in that order. Here the hash is a serial number.
- A process can be frozen between any two of its turns, also those of one instant: see
  ``quorate.chaos.sim.process``.
- Nothing outside may call in. Threads, sockets and child processes are refused, not tolerated.
- A program that waits for ever is told so, with what each task waits for, instead of hanging; so is
  one that spins without time passing, with whose turns the last ones were, and one that is not finished
  after a long (virtual) time.

Sets of strings are ordered by Python's hash seed, which differs between processes: code under
simulation sorts before it iterates over them, or a run replays only under the same PYTHONHASHSEED.

Replacing ``time`` in an ordinary loop was rejected: it keeps the real selector and its self-pipe,
and with them a way for real time to get in.

Every callback comes by here, and a run has tens of thousands of them: what a turn costs is what the simulator
costs. So handles are made and run without asyncio's own functions around them, which serve debuggers.
"""
# ruff: noqa: SLF001  # what is in asyncio's handles cannot be had otherwise

from __future__ import annotations

import asyncio
import itertools
from asyncio import format_helpers
from collections import Counter, deque
from collections.abc import Callable, Iterable
from contextvars import Context, copy_context
from functools import partial
from heapq import heappop, heappush
from typing import Any, Final, NoReturn, TypeAlias, TypeVarTuple, Unpack

from quorate.chaos.sim.process import CURRENT_PROCESS, SimProcess, process_in

__all__ = ["TIME_LIMIT_S", "SimLoop", "SimulationStuck"]

Ts = TypeVarTuple("Ts")
_Callback: TypeAlias = Callable[..., object]

TIME_LIMIT_S: Final = 30 * 24 * 3600.0
#: how many loop turns may pass at one instant before the program counts as spinning
_TURNS_PER_INSTANT_MAX: Final = 1_000_000
#: of these, so many last ones are noted, to be named; noting all would slow down whoever does not spin
_TURNS_NOTED: Final = 1_000
_CALLBACKS_NAMED_MAX: Final = 10


class SimulationStuck(RuntimeError):
    """The simulated program cannot finish: it deadlocks, spins, or runs past its time limit."""


class _SerialHash:
    """Hash by order of first use in a set in place of the address; few futures ever are in one."""

    _serial = 0

    def __hash__(self) -> int:
        serial = self._serial
        if serial == 0:
            loop = self.get_loop()  # type: ignore[attr-defined]  # every future has it
            serial = self._serial = next(loop._serials)
        return serial


class _SimFuture(_SerialHash, asyncio.Future[Any]):
    pass


class _SimTask(_SerialHash, asyncio.Task[Any]):
    pass


class _Handle(asyncio.Handle):
    """A callback, made in one step: asyncio's own asks the loop each time whether somebody debugs it."""

    __slots__ = ()
    # What asyncio's own remembers for whoever debugs it, and looks for.
    _repr = None
    _source_traceback = None

    def __init__(self, callback: _Callback, args: tuple[Any, ...], loop: SimLoop, context: Context) -> None:
        self._callback: _Callback | None = callback
        self._args = args
        self._loop = loop
        self._context = context
        self._cancelled = False

    def cancel(self) -> None:
        # As asyncio's own does: what it would have been called with need not live on.
        self._cancelled = True
        self._callback, self._args = None, ()


class _TimerHandle(_Handle, asyncio.TimerHandle):
    """Also made in one step, so it sets what a ``_Handle`` sets itself."""

    __slots__ = ()

    def __init__(
        self, when: float, callback: _Callback, args: tuple[Any, ...], loop: SimLoop, context: Context
    ) -> None:
        self._when = when
        self._callback = callback
        self._args = args
        self._loop = loop
        self._context = context
        self._cancelled = False


class SimLoop(asyncio.BaseEventLoop):
    """``time_limit_s`` is virtual; ``now`` starts at 0."""

    # What asyncio's own loop has, and does not tell type checkers of.
    _closed: bool
    _ready: deque[asyncio.Handle]
    _stopping: bool

    def __init__(self, *, time_limit_s: float = TIME_LIMIT_S) -> None:
        self._serials = itertools.count(1)
        super().__init__()
        #: what ``time`` tells, for whoever asks often
        self.now = 0.0
        self._time_limit_s = time_limit_s
        self._turns_at_this_instant = 0
        #: by name; only of instants that last suspiciously long
        self._last_callbacks: deque[str] = deque(maxlen=_TURNS_NOTED)
        self._processes: dict[SimProcess, None] = {}
        #: a heap; the serial number keeps timers of one instant in the order in which they were set
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        #: called after every callback of a process, to look at what it has done; what it raises ends the run
        self.after_turn: Callable[[SimProcess], None] | None = None
        #: what it raised
        self.failure: Exception | None = None
        self._main: asyncio.Task[Any] | None = None

    def time(self) -> float:
        return self.now

    def create_future(self) -> asyncio.Future[Any]:
        return _SimFuture(loop=self)

    def create_task(self, coro: Any, *, name: Any = None, **options: Any) -> asyncio.Task[Any]:
        """Which options there are (a context, an eager start) depends on Python's version."""
        if self._closed:
            raise RuntimeError("Event loop is closed")
        # The default name counts over the whole process, so it would differ from run to run. A number is
        # taken in any case: what comes after it does not depend on who gives its tasks names.
        serial = next(self._serials)
        return _SimTask(coro, loop=self, name=f"task-{serial}" if name is None else name, **options)

    def call_soon(
        self,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.Handle:
        if self._closed:
            raise RuntimeError("Event loop is closed")
        handle = _Handle(callback, args, self, copy_context() if context is None else context)
        self._ready.append(handle)
        return handle

    def call_later(
        self,
        delay: float,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        # As ``call_at``, which is not called: that was measured, and made a timer half as dear again.
        when = self.now + delay
        timer = _TimerHandle(when, callback, args, self, copy_context() if context is None else context)
        heappush(self._timers, (when, next(self._serials), timer))
        return timer

    def call_at(
        self,
        when: float,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        timer = _TimerHandle(when, callback, args, self, copy_context() if context is None else context)
        heappush(self._timers, (when, next(self._serials), timer))
        return timer

    def _run_once(self) -> None:
        """All turns until the loop is to stop, where asyncio's own takes one: most have one callback.

        Every callback looks whose it is at the moment at which it is run, so a process that is killed stands
        still from the next callback on.
        """
        ready, processes = self._ready, self._processes
        while True:
            if not ready and not self._stopping:
                self._pass_time()
            self._turns_at_this_instant += 1
            if self._turns_at_this_instant > _TURNS_PER_INSTANT_MAX - _TURNS_NOTED:
                self._watch_spinning()
            after_turn = self.after_turn
            # What becomes ready meanwhile has its turn after all of these.
            for _ in range(len(ready)):
                handle = ready.popleft()
                if handle._cancelled:
                    continue
                context = handle._context  # type: ignore[attr-defined]  # of every handle
                process = context.get(CURRENT_PROCESS)
                if process is not None:
                    processes[process] = None
                    if process.is_ambushed:
                        process.turn_came()
                    if process.is_frozen:
                        process.held.append(handle)
                        continue
                try:
                    # What asyncio's own handles do in a function of theirs, which would cost one more call.
                    context.run(handle._callback, *handle._args)  # type: ignore[attr-defined]  # as above
                except (SystemExit, KeyboardInterrupt):
                    raise
                except BaseException as error:  # noqa: BLE001  # whatever it is, it is no reason to stop
                    self._callback_failed(handle, error)
                if process is not None and after_turn is not None and self.failure is None:
                    try:
                        after_turn(process)
                    except Exception as error:  # noqa: BLE001  # whatever it is, it is the outcome of the run
                        self._fail(error)
                # Nobody else knows it any more: what it was called with must not live on while time passes.
                del handle
            if self._stopping:
                return

    def _callback_failed(self, handle: asyncio.Handle, error: BaseException) -> None:
        """Told as asyncio's own handles tell it."""
        callback = handle._callback  # type: ignore[attr-defined]  # of every handle
        message = f"Exception in callback {format_helpers._format_callback_source(callback, handle._args)}"
        self.call_exception_handler({"message": message, "exception": error, "handle": handle})

    def _fail(self, error: Exception) -> None:
        """The run is over. To raise it here would end the loop, and leave nothing to clean up with."""
        self.failure = error
        if self._main is not None:
            self._main.cancel()

    def _pass_time(self) -> None:
        """To the next timer, with all that are due at the same instant."""
        timers = self._timers
        while timers and timers[0][-1]._cancelled:
            heappop(timers)
        if not timers:
            raise SimulationStuck(f"deadlock at {self.now:.3f} s: nothing is scheduled{self._waiting()}")
        now = max(self.now, timers[0][0])
        if now > self.now:
            self.now = now
            self._turns_at_this_instant = 0
        if now > self._time_limit_s:
            # Whoever cleans up gets as much time again.
            self._time_limit_s += now
            raise SimulationStuck(f"not finished at {now:.3f} s, the time limit{self._waiting()}")
        while timers and timers[0][0] <= now:
            self._ready.append(heappop(timers)[-1])

    def _watch_spinning(self) -> None:
        """Notes who takes this turn; raises when there have been too many of them."""
        if self._turns_at_this_instant <= _TURNS_PER_INSTANT_MAX:
            self._last_callbacks.extend(_named(each) for each in self._ready if not each.cancelled())
            return
        self._turns_at_this_instant = 0
        last = Counter(self._last_callbacks).most_common(_CALLBACKS_NAMED_MAX)
        spinning = "".join(f"\n  {count} x {name}" for name, count in last)
        raise SimulationStuck(
            f"spinning at {self.now:.3f} s: time never passes; the last callbacks were{spinning}"
            f"\nand the tasks are{self._waiting()}"
        )

    def watch_main(self) -> None:
        """The task that calls this is the one that ends when ``after_turn`` raises."""
        self._main = asyncio.current_task(self)

    def run_soon(self, held: Iterable[asyncio.Handle]) -> None:
        """Callbacks whose turn came while their process was frozen. Each can still be called off."""
        self._ready.extend(held)

    def unwind_processes(self) -> None:
        """The simulation is over: frozen coroutines may end now, and nobody cares how."""
        self.after_turn = None
        if any(process.is_dead for process in self._processes):
            self.set_exception_handler(lambda _loop, _context: None)
        for process in self._processes:
            process.unwind(self)

    def run_in_executor(self, *_: object) -> NoReturn:
        raise RuntimeError("a simulation has no threads: what needs one belongs behind a seam")

    def _waiting(self) -> str:
        """For the error: every unfinished task and the line it stands at."""
        return "".join(f"\n  {_task_named(each)}" for each in sorted(asyncio.all_tasks(self), key=hash))

    def _write_to_self(self) -> None:
        """Wakes a loop that waits in its selector; this one never waits."""


def _named(handle: asyncio.Handle) -> str:
    """The callback, or the task whose step it is, and the process that it belongs to."""
    callback = handle._callback  # type: ignore[attr-defined]  # as asyncio's own loop does
    process = process_in(handle._context)  # type: ignore[attr-defined]  # no other way
    whose = "" if process is None else f" of {process.name}"
    while isinstance(callback, partial):
        callback = callback.func
    task = getattr(callback, "__self__", None)
    if isinstance(task, asyncio.Task):
        return _task_named(task) + whose
    return getattr(callback, "__qualname__", type(callback).__qualname__) + whose


def _task_named(task: asyncio.Task[Any]) -> str:
    """With the line it stands at."""
    frames = task.get_stack()
    at = f"{frames[-1].f_code.co_filename}:{frames[-1].f_lineno}" if frames else "(not started)"
    return f"{task.get_name()} {getattr(task.get_coro(), '__qualname__', '')} at {at}"
