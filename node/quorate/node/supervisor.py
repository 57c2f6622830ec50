"""Who watches the nodes of a local cluster: reports each death, and starts the node again if told to.

It goes by cluster.json alone, because others change the cluster too: a process that was replaced, or stopped
on purpose, is no death. Without being told to it restarts nothing, so that people and drills see a node die.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from quorate.errors import QuorateError
from quorate.node.child import log_tail
from quorate.node.cluster_file import ClusterNode
from quorate.node.local_cluster import LocalCluster
from quorate.node.process_identity import ProcessIdentity, reap

__all__ = ["Death", "Supervisor"]

_POLL_S: Final = 0.1
_BACK_OFF_MIN_S: Final = 1.0
_BACK_OFF_MAX_S: Final = 30.0
#: A node that has lived this long has recovered from whatever killed it before.
_STEADY_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class Death:
    node: ClusterNode
    pid: int
    #: "exit status 1", "killed by SIGKILL"; None: it was not our child, so nobody told us
    how: str | None
    #: None: it is left alone
    restart_in_s: float | None
    #: the end of the node's log
    log_tail: str


class _Watched:
    """What is remembered of one node."""

    __slots__ = ("back_off_s", "process", "restart_at", "since")

    def __init__(self) -> None:
        self.process: ProcessIdentity | None = None
        self.since = 0.0
        self.back_off_s = _BACK_OFF_MIN_S
        self.restart_at: float | None = None


class Supervisor:
    def __init__(
        self,
        cluster: LocalCluster,
        *,
        restarts: bool,
        on_death: Callable[[Death], None],
        on_failed_restart: Callable[[ClusterNode, QuorateError], None],
    ) -> None:
        self._cluster = cluster
        self._restarts = restarts
        self._on_death = on_death
        self._on_failed_restart = on_failed_restart
        self._watched: dict[str, _Watched] = {}

    async def run(self) -> None:
        """Until the cluster as a whole was stopped by somebody else."""
        loop = asyncio.get_running_loop()
        while True:
            state = self._cluster.state
            for node in state.nodes:
                self._look_at(node, loop.time())
            if state.is_down and not any(node.is_running for node in state.nodes):
                return
            await asyncio.sleep(_POLL_S)

    def end_nodes(self) -> list[int]:
        """SIGTERM to all that were seen running, when cluster.json names them no more; returns their pids."""
        running = [each.process for each in self._watched.values() if each.process is not None]
        for process in running:
            process.send(signal.SIGTERM)
        return [process.pid for process in running]

    def _look_at(self, node: ClusterNode, now: float) -> None:
        watched = self._watched.setdefault(node.name, _Watched())
        previous, current = watched.process, node.process
        # Asked once and here, before anything else looks: a status is told to whoever asks first.
        status = reap(previous.pid) if previous is not None else None
        if node.is_running:
            if current != previous:
                watched.process, watched.since, watched.restart_at = current, now, None
            return
        watched.process = None
        ended = current or previous
        if not node.is_wanted:
            watched.restart_at = None
        elif ended is not None:
            lived_s = now - watched.since if ended == previous else 0.0
            restart_in_s = self._plan_restart(watched, now, lived_s) if self._restarts else None
            self._died(node, ended, status, restart_in_s)
        elif watched.restart_at is not None and now >= watched.restart_at:
            self._start_again(node, watched, now)

    def _died(
        self, node: ClusterNode, ended: ProcessIdentity, status: int | None, restart_in_s: float | None
    ) -> None:
        if status is None:
            status = reap(ended.pid)
        self._cluster.forget(node.name, ended)
        self._on_death(Death(node, ended.pid, _told(status), restart_in_s, log_tail(node.log_file)))

    def _plan_restart(self, watched: _Watched, now: float, lived_s: float) -> float:
        if lived_s > _STEADY_S:
            watched.back_off_s = _BACK_OFF_MIN_S
        delay_s = watched.back_off_s
        watched.back_off_s = min(2 * delay_s, _BACK_OFF_MAX_S)
        watched.restart_at = now + delay_s
        return delay_s

    def _start_again(self, node: ClusterNode, watched: _Watched, now: float) -> None:
        watched.restart_at = None
        try:
            self._cluster.start_again(node.name)
        except QuorateError as error:
            self._plan_restart(watched, now, lived_s=0.0)
            self._on_failed_restart(node, error)


def _told(status: int | None) -> str | None:
    if status is None:
        return None
    return f"exit status {status}" if status >= 0 else f"killed by {signal.Signals(-status).name}"
