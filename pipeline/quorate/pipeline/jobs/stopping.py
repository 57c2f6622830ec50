"""How a job is asked to stop, and what it finishes before it does.

Asked to stop (SIGTERM, Ctrl-C), a batch that is being written is finished, and no other is begun. Were it
interrupted, nothing would be lost either, but done again. A second request does not wait.

A batch runs on a thread of Spark's. Between two of them only Spark decides when the next one begins, so each
passes a gate: whoever stops closes the gate when nobody is inside, and a batch that comes too late ends with
an error that leaves it to the next run. Returning without an error would count it as done.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

__all__ = ["Gate", "Interrupted", "StopRequest", "interrupted_by_signals", "stopping_on_signals"]

_LOOK_EVERY_S: Final = 0.2
#: A batch that is being written is waited for so long, and interrupted then.
_LAST_BATCH_WITHIN_S: Final = 120.0


class StopRequest:
    """Made by a signal, seen by whoever works."""

    def __init__(self) -> None:
        self._count = 0
        self._event = threading.Event()

    def ask(self) -> None:
        self._count += 1
        self._event.set()

    @property
    def is_asked(self) -> bool:
        return self._event.is_set()

    @property
    def is_urgent(self) -> bool:
        """Asked twice."""
        return self._count > 1

    def wait(self, seconds: float) -> bool:
        return self._event.wait(seconds)


class _TooLate(RuntimeError):
    """The job is being stopped: this batch is the next run's."""


class Gate:
    """Who is inside is waited for; once it is closed, nobody comes in."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_closed = False
        #: what the last one inside has failed with
        self.failure: Exception | None = None

    @contextmanager
    def inside(self) -> Iterator[None]:
        with self._lock:
            if self._is_closed:
                raise _TooLate("the job is being stopped: the next run does this batch")
            self.failure = None
            try:
                yield
            except Exception as error:
                self.failure = error
                raise

    def close(self, stop: StopRequest) -> bool:
        """Whether it was waited for; otherwise whoever is inside is about to be interrupted."""
        waited_s = 0.0
        while not self._lock.acquire(timeout=_LOOK_EVERY_S):
            waited_s += _LOOK_EVERY_S
            if stop.is_urgent or waited_s > _LAST_BATCH_WITHIN_S:
                return False
        self._is_closed = True
        self._lock.release()
        return True


@contextmanager
def stopping_on_signals(stop: StopRequest) -> Iterator[None]:
    """SIGTERM and Ctrl-C ask; in another thread than the main one nothing is changed."""

    def ask(_number: int, _frame: FrameType | None) -> None:
        stop.ask()

    with _handling_signals(ask):
        yield


class Interrupted(BaseException):
    """A signal has come; as `KeyboardInterrupt`, not for those who handle errors."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


@contextmanager
def interrupted_by_signals() -> Iterator[None]:
    """For what has nothing to finish: SIGTERM and Ctrl-C raise `Interrupted` in the middle of it."""

    def interrupt(number: int, _frame: FrameType | None) -> None:
        raise Interrupted(number)

    with _handling_signals(interrupt):
        yield


@contextmanager
def _handling_signals(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, handler) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, former in before.items():
            signal.signal(number, former)
