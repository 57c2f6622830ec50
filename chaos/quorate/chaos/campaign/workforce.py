"""Several workers; whoever has jobs gives them out and waits for what comes of them."""

from __future__ import annotations

import selectors
from collections.abc import Sequence
from types import TracebackType
from typing import Final

from quorate.chaos.campaign.job import Job
from quorate.chaos.campaign.outcome import RunOutcome
from quorate.chaos.campaign.worker_process import WorkerProcess

__all__ = ["Workforce"]

#: whoever waits gets to show progress, and to look at the time
_WAIT_S_MAX: Final = 1.0


class Workforce:
    """``size`` processes at most, started when there is work. A context manager: none of them outlives it."""

    def __init__(self, world: str, *, size: int, seconds_max: float) -> None:
        assert size > 0
        self._world = world
        self._size = size
        self._seconds_max = seconds_max
        self._busy: list[WorkerProcess] = []
        self._idle: list[WorkerProcess] = []

    def __enter__(self) -> Workforce:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for worker in (*self._busy, *self._idle):
            worker.end()
        self._busy, self._idle = [], []

    @property
    def has_room(self) -> bool:
        return len(self._busy) < self._size

    @property
    def is_busy(self) -> bool:
        return bool(self._busy)

    def give(self, job: Job) -> None:
        assert self.has_room
        worker = self._idle.pop() if self._idle else None
        if worker is None:
            worker = WorkerProcess(self._world, seconds_max=self._seconds_max)
        # Before the job: an interrupt in between must not lose sight of the process.
        self._busy.append(worker)
        worker.give(job)

    def wait(self) -> Sequence[tuple[Job, RunOutcome]]:
        """For a while; also without any outcome."""
        assert self.is_busy
        ended = []
        for worker in self._with_something_to_read():
            done = worker.receive()
            if done is not None:
                ended.append(done)
                self._dismiss(worker)
        for worker in [worker for worker in self._busy if worker.seconds_left <= 0]:
            ended.append(worker.kill_for_lateness())
            self._dismiss(worker)
        return ended

    def _with_something_to_read(self) -> list[WorkerProcess]:
        with selectors.DefaultSelector() as selector:
            for worker in self._busy:
                selector.register(worker, selectors.EVENT_READ, worker)
            patience = min(_WAIT_S_MAX, max(0.0, min(worker.seconds_left for worker in self._busy)))
            return [key.data for key, _ in selector.select(patience)]

    def _dismiss(self, worker: WorkerProcess) -> None:
        self._busy.remove(worker)
        if worker.is_worn_out or worker.is_dead:
            worker.end()
        else:
            self._idle.append(worker)
