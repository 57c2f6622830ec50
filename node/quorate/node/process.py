"""A node as an operating system process: signals, limits, the event loop, exit statuses."""

from __future__ import annotations

import asyncio
import gc
import os
import resource
import signal
import socket
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NoReturn

import structlog

from quorate.core.clock import SystemClock
from quorate.core.config import HostPort, LoggingFormat, NodeConfig
from quorate.core.freed_memory import keep_freed_memory
from quorate.core.log_flood import FloodGuard
from quorate.core.logging import configure_logging, forget_what_was_not_written, get_logger
from quorate.core.os_disk import OsDisk
from quorate.core.standard_streams import forget_stream
from quorate.errors import QuorateError
from quorate.node.metrics.meters import Meters
from quorate.node.node import Node, Surroundings
from quorate.node.ready_line import READY_PREFIX
from quorate.node.stack_dump import dump_stacks_on_signal

if TYPE_CHECKING:
    from quorate.node.endpoint import Endpoint

__all__ = ["connections_within", "run_node"]

log = get_logger(__name__)

#: A call whose client sets no deadline may last as long as the longest wait, and a little more.
_DEADLINE_MARGIN_S: Final = 5.0
#: what calls between nodes may hold at least: see the options of the same names
_ARRIVING_FROM_NODES_MIN: Final = 256 << 20
_UNTAKEN_BY_NODES_MIN: Final = 1 << 30
#: more are not expected to leave an answer of full size lying at the same moment
_STUCK_FOLLOWERS_MAX: Final = 100
#: connections that all listeners keep at once, where the process may have so many files open
_CONNECTIONS_MAX: Final = 20_000


def run_node(config: NodeConfig) -> int:
    """Run until SIGTERM or SIGINT. 0: stopped cleanly, 1: the next start has to recover."""
    keep_freed_memory()
    _silence_grpc_core()
    flood = FloodGuard(SystemClock().monotonic)
    meters = None if config.metrics.address is None else Meters(config, SystemClock(), flood)
    _configure_logging(config, flood, meters)
    structlog.contextvars.bind_contextvars(node_id=config.node_id)
    files_max = _raise_open_files_limit()
    connections_max = connections_within(files_max)
    log.info("open_files_limit", open_files_max=files_max, connections_max=connections_max)
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        try:
            is_clean = runner.run(_run(_with_ports(config), meters, connections_max))
        except QuorateError:
            raise
        except Exception:
            # Whoever called us may tell it in one line; a node's log is where the rest is looked for.
            log.exception("node_failed")
            raise
        finally:
            forget_what_was_not_written()
    return 0 if is_clean else 1


def _with_ports(config: NodeConfig) -> NodeConfig:
    """A real port for each listener that asks for any: others are told of it before the node listens."""
    listeners = []
    for listener in config.listeners:
        if listener.port == 0:
            family = socket.AF_INET6 if ":" in listener.host else socket.AF_INET
            with socket.socket(family) as probe:
                probe.bind((listener.host, 0))
                listeners.append(HostPort(listener.host, probe.getsockname()[1]))
        else:
            listeners.append(listener)
    return replace(config, listeners=tuple(listeners))


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """None: asyncio's own loop."""
    try:
        import uvloop
    except ImportError as error:
        log.warning("uvloop_missing", consequence="asyncio's own loop, which is slower", error=str(error))
        return None
    return uvloop.new_event_loop


async def _run(config: NodeConfig, meters: Meters | None, connections_max: int) -> bool:
    stop_requested = _stop_on_signals()
    dump_stacks_on_signal()
    disk = OsDisk(
        sync_threads=config.num_io_threads,
        on_sync=None if meters is None else meters.disk.flushes.observe,
    )
    endpoint = None
    try:
        if meters is not None:
            endpoint = await _open_endpoint(config, meters, disk)
        surroundings = _surroundings(config, disk, meters, connections_max)
        node = await _start_unless_stopped(config, surroundings, stop_requested)
        if node is None:
            return False
        if endpoint is not None:
            endpoint.attach(node, config.node_id)
        try:
            await node.run(stop_requested, on_ready=lambda: _announce(node))
        finally:
            is_clean = await node.stop()
    finally:
        if endpoint is not None:
            await endpoint.close()
        disk.close()
    return is_clean


async def _open_endpoint(config: NodeConfig, meters: Meters, disk: OsDisk) -> Endpoint:
    """Before all else, which may take long."""
    assert config.metrics.address is not None
    meters.disk.attach(disk)
    # Not before now: what writes and serves metrics takes a while to be imported.
    from quorate.node.endpoint import Endpoint

    return await Endpoint.open(config.metrics.address, meters)


async def _start_unless_stopped(
    config: NodeConfig, surroundings: Surroundings, stop_requested: asyncio.Event
) -> Node | None:
    """Recovery may take long; whoever asks for a stop meanwhile gets it."""
    start = asyncio.create_task(Node.start(config, surroundings), name="start")
    stop = asyncio.create_task(stop_requested.wait(), name="stop-requested")
    await asyncio.wait((start, stop), return_when=asyncio.FIRST_COMPLETED)
    stop.cancel()
    if start.done():
        return start.result()
    start.cancel()
    await asyncio.wait((start,))
    log.info("node_stopped", clean=False, reason="stopped while starting")
    return None


def _silence_grpc_core() -> None:
    """gRPC's C core would write lines of its own between the log's JSON objects; set it to hear them."""
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")


def _surroundings(
    config: NodeConfig, disk: OsDisk, meters: Meters | None, connections_max: int
) -> Surroundings:
    # Not before now: grpcio's core looks at its variable once, while it is imported.
    from quorate.rpc.choice import node_transport_of
    from quorate.rpc.traffic import NO_TRAFFIC

    longest_wait_s = max(config.fetch_wait_max_ms, config.produce_timeout_max_ms) / 1000
    transport = node_transport_of(
        config.rpc_transport,
        message_bytes_max=config.socket_request_max_bytes,
        requests_max=config.queued_max_requests,
        arriving_bytes_max=config.queued_max_request_bytes,
        # Twice: fetches keep to the one half by themselves, and what else is answered has the other.
        untaken_bytes_max=2 * max(config.queued_max_response_bytes, config.socket_request_max_bytes),
        # A few of the largest requests, and answers to more followers than are stuck at once.
        internal_arriving_bytes_max=max(_ARRIVING_FROM_NODES_MIN, 4 * config.socket_request_max_bytes),
        internal_untaken_bytes_max=max(
            _UNTAKEN_BY_NODES_MIN, _STUCK_FOLLOWERS_MAX * config.replica_fetch_response_max_bytes
        ),
        # Each listener counts its own.
        connections_max=max(1, connections_max // len(config.listeners)),
        default_timeout_s=longest_wait_s + _DEADLINE_MARGIN_S,
        traffic=NO_TRAFFIC if meters is None else meters.requests,
    )
    return Surroundings(
        clock=SystemClock(),
        disk=disk,
        transport=transport if meters is None else meters.measured(transport),
        random_bytes=os.urandom,
        on_fatal=_die,
    )


def _announce(node: Node) -> None:
    # Nothing allocated so far will become garbage: keep the collector from walking over it.
    gc.collect()
    gc.freeze()
    try:
        sys.stdout.write(f"{READY_PREFIX}{','.join(node.addresses)}\n")
        sys.stdout.flush()
    except OSError as error:
        # A full disk, or a reader that has gone. It serves all the same, and others may know where.
        log.warning("ready_line_not_written", addresses=node.addresses, error=str(error))
        forget_stream(sys.stdout)


def _configure_logging(config: NodeConfig, flood: FloodGuard, meters: Meters | None) -> None:
    choice = {LoggingFormat.AUTO: None, LoggingFormat.JSON: True, LoggingFormat.TEXT: False}
    configure_logging(
        json=choice[config.logging_format],
        level=config.logging_level,
        on_event=None if meters is None else meters.events.logged,
        flood=flood,
        on_unwritten=None if meters is None else meters.events.not_written,
    )


def _raise_open_files_limit() -> int | None:
    """What it is then; None: there is none.

    Each partition keeps a file open; the usual soft limit of 1024 is for programs that use select.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return None if hard == resource.RLIM_INFINITY else hard


def connections_within(open_files_max: int | None) -> int:
    """Half of the files that may be open at most: the rest is for the disk and for connections to others.

    So nobody who connects takes from the node what it needs to recover its logs, and to write to them.
    """
    return _CONNECTIONS_MAX if open_files_max is None else max(1, min(_CONNECTIONS_MAX, open_files_max // 2))


def _stop_on_signals() -> asyncio.Event:
    stop_requested = asyncio.Event()

    def on_signal(number: signal.Signals) -> None:
        if stop_requested.is_set():
            # Asked twice: someone is in a hurry. A node may be killed at any time, so this is safe.
            log.warning("node_killed", signal=number.name)
            os._exit(128 + number)
        log.info("stop_requested", signal=number.name)
        stop_requested.set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal, number)
    return stop_requested


def _die(reason: str) -> NoReturn:
    """Not an exception: nothing may run after this, least of all what writes the clean-shutdown marker."""
    log.error("fatal", reason=reason)
    os._exit(1)
