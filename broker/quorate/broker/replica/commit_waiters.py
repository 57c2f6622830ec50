"""Producers that wait for an offset.

Offsets are handed out in order, so the waiters form a queue and each move of the offset pops its front. A
callback in place of a future: a request waits for many partitions with one counter, and none of them needs
a task. Callbacks run in the middle of an append or a fetch, so they have to be short and must not raise.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from quorate.core.ids import Offset
from quorate.errors import QuorateError

__all__ = ["CommitWaiter", "CommitWaiters", "OnDone"]

#: None: it is done; an error: whether it is will never be known here (rule 19)
OnDone = Callable[[QuorateError | None], None]


class CommitWaiter:
    __slots__ = ("next_offset", "on_done")

    def __init__(self, next_offset: Offset, on_done: OnDone) -> None:
        #: exclusive end of what has to be committed
        self.next_offset = next_offset
        self.on_done: OnDone | None = on_done

    def cancel(self) -> None:
        """Whoever waited has gone."""
        self.on_done = None

    def finish(self, error: QuorateError | None) -> None:
        """Exactly once, whatever the callback does."""
        on_done, self.on_done = self.on_done, None
        if on_done is not None:
            on_done(error)


class CommitWaiters:
    __slots__ = ("_queue",)

    def __init__(self) -> None:
        #: by next_offset, ascending
        self._queue: deque[CommitWaiter] = deque()

    def __len__(self) -> int:
        return len(self._queue)

    def add(self, next_offset: Offset, on_done: OnDone) -> CommitWaiter:
        """At the end, where it belongs unless it is a retry of an older batch."""
        queue = self._queue
        while queue and queue[0].on_done is None:
            queue.popleft()
        waiter = CommitWaiter(next_offset, on_done)
        if not queue or queue[-1].next_offset <= next_offset:
            queue.append(waiter)
            return waiter
        position = len(queue)
        while position > 0 and queue[position - 1].next_offset > next_offset:
            position -= 1
        queue.insert(position, waiter)
        return waiter

    def reached(self, offset: Offset) -> None:
        queue = self._queue
        while queue and queue[0].next_offset <= offset:
            queue.popleft().finish(None)

    def give_up(self, error: QuorateError) -> None:
        """Their batches are in the log, and whether they stay is not known: ``error`` says just that."""
        assert error.outcome_unknown
        queue, self._queue = self._queue, deque()
        for waiter in queue:
            waiter.finish(error)

    def validate(self, reached: Offset) -> None:
        offsets = [waiter.next_offset for waiter in self._queue]
        assert offsets == sorted(offsets)
        assert all(offset > reached for offset in offsets)
