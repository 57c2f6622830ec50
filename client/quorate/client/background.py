"""The event loop behind the synchronous clients: one for the whole process, on a thread of its own.

Every synchronous client of a process shares it, so ten producers cost one thread. It starts with the first
client and ends with the last. The thread is a daemon: a program that forgets to close its clients still ends.

A forked child has the parent's objects and none of its threads: it starts a loop of its own for the clients
that it opens. Clients that were open before the fork belong to the parent.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from quorate.errors import ClientClosed, InvalidRequest

__all__ = ["BackgroundLoop"]

T = TypeVar("T")


class BackgroundLoop:
    """Get it by ``acquire``, and give it back by ``release``, once each."""

    _guard = threading.Lock()
    _shared: BackgroundLoop | None = None

    @classmethod
    def acquire(cls) -> BackgroundLoop:
        with cls._guard:
            if cls._shared is None:
                cls._shared = cls()
            shared = cls._shared
            shared._users += 1  # noqa: SLF001 - its own class
            return shared

    def __init__(self) -> None:
        self._users = 0
        #: calls that somebody waits for
        self._calls: set[concurrent.futures.Future[Any]] = set()
        self.loop = _new_event_loop()
        self._thread = threading.Thread(target=self._run, name="quorate-client", daemon=True)
        self._thread.start()

    def release(self) -> None:
        """The last user's stops the thread, and returns when it has ended."""
        with BackgroundLoop._guard:
            self._users -= 1
            if self._users > 0:
                return
            if BackgroundLoop._shared is self:
                BackgroundLoop._shared = None
        self.loop.call_soon_threadsafe(self.loop.stop)
        if not self.is_current_thread():
            self._thread.join()

    def is_current_thread(self) -> bool:
        """Whether the caller runs on the loop itself, in a callback: there, waiting would never end."""
        return threading.get_ident() == self._thread.ident

    def call_soon(self, callback: Callable[[], object]) -> None:
        """On the loop, from any thread; from the loop itself without the cost of waking it."""
        if threading.get_ident() == self._thread.ident:
            self.loop.call_soon(callback)
        else:
            self.loop.call_soon_threadsafe(callback)

    def call(self, coroutine: Coroutine[Any, Any, T], *, timeout_s: float | None = None) -> T:
        """Run it there and wait for its result; after ``timeout_s`` it is cancelled: ``TimeoutError``."""
        if self.is_current_thread():
            coroutine.close()
            raise InvalidRequest(
                "a callback of the client must not wait for the client: it would wait for ever"
            )
        try:
            future = asyncio.run_coroutine_threadsafe(coroutine, self.loop)
        except RuntimeError:
            coroutine.close()
            raise ClientClosed("the client was closed") from None
        self._calls.add(future)
        try:
            if self.loop.is_closed():
                future.cancel()  # it closed in between, and has not seen this call
            return future.result(timeout_s)
        except concurrent.futures.CancelledError:
            raise ClientClosed("the client was closed") from None
        except BaseException:
            # Also when the program is interrupted: nobody will ask for the result any more.
            future.cancel()
            raise
        finally:
            self._calls.discard(future)

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_forever()
        finally:
            remaining = asyncio.all_tasks(self.loop)
            for task in remaining:
                task.cancel()
            self.loop.run_until_complete(asyncio.gather(*remaining, return_exceptions=True))
            self.loop.run_until_complete(self.loop.shutdown_asyncgens())
            self.loop.close()
            # Calls that came too late to run would be waited for for ever.
            for call in list(self._calls):
                call.cancel()


def _new_event_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()  # where uvloop has no wheels; slower
    return uvloop.new_event_loop()


def _forget_the_parents() -> None:
    BackgroundLoop._guard = threading.Lock()  # noqa: SLF001 - this module's own; the parent may have held it
    BackgroundLoop._shared = None  # noqa: SLF001


os.register_at_fork(after_in_child=_forget_the_parents)
