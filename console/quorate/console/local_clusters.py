"""Bringing a local cluster up, and staying with it: what ``quorate up`` does.

The nodes are processes of their own. Ctrl-C reaches this process alone, which then stops them; a second one
means hurry, and kills them, which they are made to survive.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import click

from quorate.console.advice import AdvisedError
from quorate.console.output import print_json
from quorate.console.session import Session
from quorate.errors import (
    CannotListen,
    InvalidRequest,
    QuorateError,
    RequestTimedOut,
    StorageFailed,
    Unavailable,
)
from quorate.node.cluster_file import ClusterNode
from quorate.node.local_cluster import LocalCluster
from quorate.node.ready_line import READY_PREFIX
from quorate.node.supervisor import Death, Supervisor

__all__ = ["PORT_ADVICE", "UpOptions", "bring_up", "named_node", "node_document", "node_state", "was_killed"]

PORT_ADVICE: Final = (
    "stop whoever uses the port; a new cluster takes others with --port (0: any that are free), one that "
    "exists keeps those in its cluster.json"
)
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True, slots=True)
class UpOptions:
    #: None: a temporary one
    directory: str | None
    controllers: int
    brokers: int
    is_combined: bool
    port: int
    settings: Mapping[str, str]
    #: which of the above somebody asked for by name: a cluster that exists must agree with these
    given: frozenset[str]
    detach: bool
    restarts: bool


def bring_up(session: Session, options: UpOptions) -> int:
    """Returns the exit status."""
    foreign = _foreign_files(options.directory)
    try:
        cluster = _open(options)
    except InvalidRequest as error:
        if type(error) is not InvalidRequest:
            raise
        raise AdvisedError(error, "") from error
    except CannotListen as error:
        raise AdvisedError(error, PORT_ADVICE) from error
    except StorageFailed as error:
        raise AdvisedError(error, "choose a directory with --dir that you may write to") from error
    if foreign:
        session.note(
            f"{options.directory} has other files in it ({foreign[0]}, say); the cluster's go beside them"
        )
    try:
        with cluster.watched() as is_ours:
            if not is_ours:
                running = InvalidRequest(
                    f"another `quorate up` runs the cluster in {cluster.directory}; "
                    f"`quorate down --dir {cluster.directory}` stops it",
                    path=cluster.directory,
                )
                raise AdvisedError(running, "")
            _add_brokers(cluster, session, options)
            return asyncio.run(_run(cluster, session, options))
    finally:
        cluster.remove_if_temporary()


def named_node(cluster: LocalCluster, name: str) -> ClusterNode:
    """By its name, or by its id."""
    names = {str(node.id): node.name for node in cluster.nodes}
    return cluster.node(names.get(name, name))


def node_document(node: ClusterNode) -> dict[str, Any]:
    return {
        "name": node.name,
        "id": node.id,
        "roles": list(node.roles),
        "address": node.address,
        "metrics_address": node.metrics_address,
        "pid": node.process.pid if node.process is not None and node.is_running else None,
        "state": node_state(node),
        "data_dir": node.data_dir,
        "log_file": node.log_file,
    }


def node_state(node: ClusterNode) -> str:
    if node.process is not None and node.is_running:
        return "paused" if node.process.is_stopped else "running"
    return "died" if node.is_wanted else "stopped"


def _foreign_files(directory: str | None) -> list[str]:
    """Where there is no cluster yet. They harm nobody, but it may be the wrong directory."""
    if directory is None or LocalCluster.exists_in(directory) or not os.path.isdir(directory):
        return []
    return sorted(os.listdir(directory))


def _open(options: UpOptions) -> LocalCluster:
    if options.directory is None or not LocalCluster.exists_in(options.directory):
        return LocalCluster.create(
            options.directory,
            controllers=options.controllers,
            brokers=options.brokers,
            is_combined=options.is_combined,
            port=options.port,
            settings=options.settings,
        )
    cluster = LocalCluster(options.directory)
    nodes = cluster.nodes
    asked: dict[str, tuple[int, int]] = {
        "controllers": (options.controllers, sum("controller" in node.roles for node in nodes)),
        "port": (options.port, int(nodes[0].address.rpartition(":")[2])),
    }
    for name, (wanted, found) in asked.items():
        if name in options.given and wanted != found:
            raise InvalidRequest(
                f"the cluster in {cluster.directory} was made with --{name} {found}, not {wanted}; "
                "leave the option out, or choose another directory",
                path=cluster.directory,
            )
    if options.is_combined and not any(len(node.roles) > 1 for node in nodes):
        raise InvalidRequest(
            f"the cluster in {cluster.directory} was made without --combined; leave the option out, or "
            "choose another directory",
            path=cluster.directory,
        )
    if "brokers" in options.given and options.brokers < _broker_count(cluster):
        raise AdvisedError(
            InvalidRequest(
                f"the cluster in {cluster.directory} has {_broker_count(cluster)} brokers; --brokers can "
                "only add some",
                path=cluster.directory,
            ),
            "leave the option out; `quorate broker decommission ID` takes a broker out of service",
        )
    if options.settings:
        cluster.set(options.settings)
    return cluster


def _broker_count(cluster: LocalCluster) -> int:
    """Of those that are started with the others."""
    return sum("broker" in node.roles and not node.is_left_out for node in cluster.nodes)


def _add_brokers(cluster: LocalCluster, session: Session, options: UpOptions) -> None:
    """As many as were asked for and are not there yet; they start with the others."""
    if "brokers" not in options.given:
        return
    while _broker_count(cluster) < options.brokers:
        session.note(f"added {cluster.add_broker()}")


async def _run(cluster: LocalCluster, session: Session, options: UpOptions) -> int:
    ran_before = any(node.is_running for node in cluster.nodes)
    added = [node.name for node in cluster.nodes if not node.is_running and not node.is_left_out]
    ready = asyncio.Event()
    work = asyncio.create_task(_work(cluster, session, options, ready), name="up")
    interruption = _Interruption(cluster, work)
    try:
        await work
    except asyncio.CancelledError:
        if not interruption.is_asked:
            raise
        session.note("stopping …")
    except QuorateError as error:
        # A cluster that ran before goes on; what this attempt has added to it does not.
        if LocalCluster.exists_in(cluster.directory):
            await cluster.stop(added if ran_before else None)
        raise _advised(error, cluster, is_new=not ran_before) from error
    if options.detach and not interruption.is_asked:
        return 0
    killed = await cluster.stop()
    for name in killed:
        click.echo(f"{name} {was_killed(cluster, name)}", err=True)
    if interruption.is_urgent or not ready.is_set():
        return 130
    return 1 if killed else 0


def was_killed(cluster: LocalCluster, name: str) -> str:
    return f"did not stop in time, and was killed; what it was at: the end of {cluster.node(name).log_file}"


async def _work(cluster: LocalCluster, session: Session, options: UpOptions, ready: asyncio.Event) -> None:
    """Until it runs; and unless detached, for as long as it does."""
    session.note(f"cluster of {len(cluster.nodes)} node(s) in {cluster.directory}")
    left_out = [node.name for node in cluster.nodes if node.is_left_out]
    if left_out:
        session.note(f"left out, as `quorate stop` stopped them: {', '.join(left_out)}")
    await cluster.start()
    described = await cluster.wait_for_controller()
    ready.set()
    _announce(cluster, session, described.controller)
    if not options.detach:
        supervisor = Supervisor(
            cluster,
            restarts=options.restarts,
            on_death=lambda death: _report(death, cluster),
            on_failed_restart=_report_failed_restart,
        )
        try:
            await supervisor.run()
        except QuorateError:
            if not LocalCluster.exists_in(cluster.directory):
                pids = ", ".join(map(str, supervisor.end_nodes()))
                session.note(f"cluster.json is gone: the nodes were told to stop (pids {pids})")
            raise
        session.note("stopped by somebody else")


def _announce(cluster: LocalCluster, session: Session, controller: int) -> None:
    if session.json:
        print_json(
            {
                "bootstrap": cluster.bootstrap,
                "dir": cluster.directory,
                "controller": controller,
                "nodes": [node_document(node) for node in cluster.nodes],
            }
        )
    else:
        click.echo(f"{READY_PREFIX}{cluster.bootstrap}")
    # Whoever waits for this line may read from a pipe, and we stay.
    sys.stdout.flush()


def _report(death: Death, cluster: LocalCluster) -> None:
    how = f": {death.how}" if death.how is not None else ""
    if death.restart_in_s is not None:
        next_step = f"it is started again in {death.restart_in_s:g} s"
    else:
        next_step = f"`quorate restart --dir {cluster.directory} {death.node.name}` starts it again"
    click.echo(f"{death.node.name} (pid {death.pid}) died{how}; {next_step}", err=True)
    click.echo(f"  the end of {death.node.log_file}:", err=True)
    for line in death.log_tail.splitlines():
        click.echo(f"  | {line}", err=True)


def _report_failed_restart(node: ClusterNode, error: QuorateError) -> None:
    click.echo(f"{node.name} could not be started again: {error.code}: {error.message}", err=True)


def _advised(error: QuorateError, cluster: LocalCluster, *, is_new: bool) -> Exception:
    if isinstance(error, CannotListen):
        return AdvisedError(error, PORT_ADVICE)
    if isinstance(error, Unavailable | RequestTimedOut):
        where = "" if is_new and cluster.state.is_temporary else f"; all logs are in {cluster.directory}"
        return AdvisedError(error, f"the log says why; correct that and run it again{where}")
    return error


class _Interruption:
    """The first signal ends the work, so that the cluster is stopped; the second kills what still runs."""

    def __init__(self, cluster: LocalCluster, work: asyncio.Task[None]) -> None:
        self._cluster = cluster
        self._work = work
        self.is_asked = False
        self.is_urgent = False
        loop = asyncio.get_running_loop()
        for number in _SIGNALS:
            # Under nohup a closed terminal is no reason to stop.
            if number is not signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
                loop.add_signal_handler(number, self._on_signal)

    def _on_signal(self) -> None:
        if not self.is_asked:
            self.is_asked = True
            self._work.cancel()
            return
        self.is_urgent = True
        for node in self._cluster.nodes:
            if node.process is not None:
                node.process.send(signal.SIGKILL)
