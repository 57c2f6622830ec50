"""What ``send`` returns: a light handle into a batch."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Generator
from contextlib import suppress
from functools import partial
from typing import Any, final

from quorate.client.producer.batch import ProducerBatch, RecordMetadata, run_callback
from quorate.errors import QuorateError

__all__ = ["RecordFuture", "wait_for"]


@final
class RecordFuture:
    """A record's place in its batch. Has the methods of ``concurrent.futures.Future``, and can be awaited.

    There is no ``cancel``: a record that was handed over is sent.
    """

    __slots__ = ("_batch", "_index")

    def __init__(self, batch: ProducerBatch, index: int) -> None:
        self._batch = batch
        self._index = index

    def __repr__(self) -> str:
        batch = self._batch
        if not batch.is_done:
            return f"<RecordFuture for {batch.queue.topic_partition}, under way>"
        return f"<RecordFuture: {batch.metadata(self._index) if batch.error is None else batch.error!r}>"

    def done(self) -> bool:
        return self._batch.is_done

    def result(self, timeout: float | None = None) -> RecordMetadata:
        """Where the record is; raises what became of it otherwise. ``TimeoutError``: not known yet.

        The error says which of two it is: ``outcome_unknown`` is True if the record may be in the log.
        """
        batch = self._batch
        if not batch.is_done:
            batch.wait(timeout)
        batch.raise_error()
        return batch.metadata(self._index)

    def exception(self, timeout: float | None = None) -> QuorateError | None:
        if not self._batch.is_done:
            self._batch.wait(timeout)
        return self._batch.error

    def add_done_callback(self, callback: Callable[[RecordFuture], object]) -> None:
        """Called with this future, on the client's loop; at once if it is done."""
        if not self._batch.when_done(lambda: run_callback(callback, self)):
            run_callback(callback, self)

    def __await__(self) -> Generator[Any, None, RecordMetadata]:
        batch = self._batch
        if not batch.is_done:
            if batch.queue.is_on_loop():
                done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                if batch.when_done(partial(_be_done, done)):
                    yield from done
            else:
                yield from wait_for(batch).__await__()
        batch.raise_error()
        return batch.metadata(self._index)


async def wait_for(batch: ProducerBatch) -> None:
    """Until the batch is done; on any loop, also another than the client's."""
    loop = asyncio.get_running_loop()
    thread = threading.get_ident()
    done = loop.create_future()

    def wake() -> None:
        if threading.get_ident() == thread:
            _be_done(done)
        else:
            with suppress(RuntimeError):  # that loop was closed: nobody waits there any more
                loop.call_soon_threadsafe(_be_done, done)

    if batch.when_done(wake):
        await done


def _be_done(done: asyncio.Future[None]) -> None:
    if not done.done():
        done.set_result(None)
