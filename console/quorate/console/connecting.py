"""From a synchronous command to calls on the cluster."""

from __future__ import annotations

import asyncio
import logging
import signal
import threading
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from quorate.client.bootstrap import parse_bootstrap
from quorate.client.impatient_admin import ImpatientAdmin
from quorate.client.transport import client_transport
from quorate.errors import InvalidConfig
from quorate.node.interruption import Terminated

if TYPE_CHECKING:
    from quorate.client import AsyncAdmin, AsyncConsumer, AsyncProducer

__all__ = ["Clients", "with_clients", "with_connection"]

T = TypeVar("T")


class Clients:
    """Makes the clients that a command needs, each for the cluster of ``--bootstrap``."""

    def __init__(self, bootstrap: str) -> None:
        self._addresses = _addresses(bootstrap)
        self._transport = client_transport()

    def admin(self) -> AsyncAdmin:
        from quorate.client import AsyncAdmin

        return AsyncAdmin(self._addresses, transport=self._transport)

    def producer(self, **options: Any) -> AsyncProducer:
        from quorate.client import AsyncProducer

        return AsyncProducer(self._addresses, transport=self._transport, **options)

    def consumer(self, **options: Any) -> AsyncConsumer:
        from quorate.client import AsyncConsumer

        return AsyncConsumer(self._addresses, transport=self._transport, **options)


def with_clients(bootstrap: str, work: Callable[[Clients], Awaitable[T]]) -> T:
    """Run ``work``, which closes what it opens."""
    clients = Clients(bootstrap)
    return _run(lambda: work(clients))


def with_connection(bootstrap: str, work: Callable[[ImpatientAdmin], Awaitable[T]]) -> T:
    """Run ``work`` on a connection of its own."""
    addresses = _addresses(bootstrap)

    async def connect_and_work() -> T:
        async with ImpatientAdmin(client_transport(), addresses) as connection:
            return await work(connection)

    return _run(connect_and_work)


def _run(work: Callable[[], Awaitable[T]]) -> T:
    was_terminated = False

    async def run() -> T:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None

        def terminate() -> None:
            nonlocal was_terminated
            was_terminated = True
            task.cancel()

        loop.set_exception_handler(_on_loop_error)
        logging.getLogger("quorate.client.cluster").addFilter(_is_not_told_here)
        if threading.current_thread() is threading.main_thread():
            loop.add_signal_handler(signal.SIGTERM, terminate)
        return await work()

    try:
        return asyncio.run(run())
    except asyncio.CancelledError:
        if was_terminated:
            raise Terminated from None
        raise


def _is_not_told_here(record: logging.LogRecord) -> bool:
    """Commands say in their own words that nobody answers."""
    return "cluster_unreachable" not in record.getMessage()


def _on_loop_error(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Whoever presses Ctrl-C twice interrupts some task in the middle; that is no error to be traced."""
    if not isinstance(context.get("exception"), KeyboardInterrupt):
        loop.default_exception_handler(context)


def _addresses(bootstrap: str) -> list[str]:
    try:
        return parse_bootstrap(bootstrap)
    except InvalidConfig as error:
        raise click.BadParameter(
            error.message,
            ctx=click.get_current_context(silent=True),
            param_hint="--bootstrap (or QUORATE_BOOTSTRAP)",
        ) from None
