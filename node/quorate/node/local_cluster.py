"""A cluster of real processes on this machine: made, started, stopped, and broken on purpose.

Everything about it is in its directory: ``cluster.json`` and, for each node, its data and its log. A
``LocalCluster`` holds no state of its own beyond that, so any number of them, in any number of processes,
may look at the same directory: ``quorate up`` watches, ``quorate restart`` replaces a node under its eyes, a
drill kills one. Nodes are in sessions of their own: Ctrl-C is for whoever started them, and they outlive it
if it dies.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import tempfile
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self, TypeVar

from quorate.core.config import NodeConfig, load_node_config
from quorate.errors import (
    CannotListen,
    InvalidConfig,
    InvalidRequest,
    QuorateError,
    RequestTimedOut,
    StorageFailed,
    Unavailable,
)
from quorate.node.child import log_size, log_tail, node_command, node_environment
from quorate.node.cluster_file import ClusterFile, ClusterNode, ClusterState
from quorate.node.cluster_layout import check_port_is_free, new_broker, new_cluster, nodes_left_in
from quorate.node.interruption import uninterrupted
from quorate.node.process_identity import ProcessIdentity, reap
from quorate.node.ready_line import READY_PREFIX
from quorate.node.stack_dump import STACK_DUMP_SIGNAL
from quorate.node.stop_times import longest_stop_s

if TYPE_CHECKING:
    from quorate.client.impatient_admin import ImpatientAdmin
    from quorate.v1 import admin_pb2

__all__ = ["LocalCluster"]

T = TypeVar("T")

#: The cluster gives each node its own of these; nobody else may.
_OWN_KEYS: Final = (
    "advertised.address",
    "cluster.id",
    "controller.voters",
    "data.dir",
    "listeners",
    "metrics.address",
    "node.id",
    "node.roles",
)

_READY_TIMEOUT_S: Final = 60.0
#: beyond what a node may wait for by its settings: to sync and close what it has, on a busy machine
_STOP_MARGIN_S: Final = 20.0
_CONTROLLER_TIMEOUT_S: Final = 60.0
_KILL_TIMEOUT_S: Final = 10.0
_DUMP_TIMEOUT_S: Final = 1.0
_POLL_S: Final = 0.02


class LocalCluster:
    """As an asynchronous context manager: started on entry, stopped on exit."""

    def __init__(self, directory: str) -> None:
        """Of a cluster that exists; see ``create``."""
        self._file = ClusterFile(directory)
        self._file.read()

    @classmethod
    def create(
        cls,
        directory: str | None = None,
        *,
        controllers: int = 3,
        brokers: int = 3,
        is_combined: bool = False,
        port: int = 0,
        settings: Mapping[str, str] | None = None,
    ) -> LocalCluster:
        """Lays it out on disk, and starts nothing. Without a directory: a temporary one."""
        chosen = dict(settings or {})
        made = directory is None
        if directory is not None:
            _refuse_data_without_a_cluster(directory)
        path = tempfile.mkdtemp(prefix="quorate-") if directory is None else os.path.abspath(directory)
        try:
            state = new_cluster(
                path,
                controllers=controllers,
                brokers=brokers,
                is_combined=is_combined,
                port=port,
                settings=chosen,
                is_temporary=made,
            )
            _check_settings(state)
            for node in state.nodes:
                check_port_is_free(node)
        except BaseException:
            if made:
                os.rmdir(path)
            raise
        try:
            cls._lay_out(path, state)
        except OSError as error:
            raise StorageFailed(f"no cluster can be made in {path}: {error.strerror}", path=path) from error
        return cls(path)

    @staticmethod
    def _lay_out(path: str, state: ClusterState) -> None:
        os.makedirs(path, exist_ok=True)
        file = ClusterFile(path)
        with file.locked():
            if file.exists:
                raise InvalidRequest(f"{path} holds a cluster already", path=path)
            file.write(state)

    @staticmethod
    def exists_in(directory: str) -> bool:
        return ClusterFile(directory).exists

    # -- looking

    @property
    def directory(self) -> str:
        return self._file.directory

    @property
    def state(self) -> ClusterState:
        return self._file.read()

    @property
    def nodes(self) -> tuple[ClusterNode, ...]:
        return self.state.nodes

    @property
    def names(self) -> list[str]:
        return [node.name for node in self.nodes]

    def node(self, name: str) -> ClusterNode:
        return self.state.node(name)

    def is_running(self, name: str) -> bool:
        return self.node(name).is_running

    def data_dir(self, name: str) -> str:
        return self.node(name).data_dir

    def log_file(self, name: str) -> str:
        return self.node(name).log_file

    @property
    def controller_addresses(self) -> list[str]:
        return [node.address for node in self.nodes if "controller" in node.roles]

    @property
    def broker_addresses(self) -> list[str]:
        return [node.address for node in self.nodes if "broker" in node.roles]

    @property
    def bootstrap(self) -> str:
        """The brokers, which answer everything; a quorum by itself answers what it can."""
        in_service = [node.address for node in self.nodes if "broker" in node.roles and not node.is_left_out]
        return ",".join(in_service or self.controller_addresses)

    def connect(self, *names: str) -> ImpatientAdmin:
        """To these nodes; none named: to all."""
        from quorate.client.impatient_admin import connect

        addresses = [self.node(name).address for name in names]
        return connect(",".join(addresses) or self.bootstrap)

    # -- the whole of it

    async def __aenter__(self) -> Self:
        try:
            await self.start()
            await self.wait_for_controller()
        except BaseException:
            await self.dispose()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.dispose()

    async def dispose(self) -> None:
        """``stop``; a temporary directory goes too."""
        await self.stop()
        self.remove_if_temporary()

    def remove_if_temporary(self) -> None:
        """Once it was stopped. While somebody watches it, it is theirs to remove, and may be gone by now."""
        with contextlib.suppress(FileNotFoundError), self.watched() as is_ours, self._file.locked():
            if is_ours and self._file.exists and self.state.is_temporary and self.state.is_down:
                # At once, so that nobody finds half of it.
                gone = f"{self.directory}.gone"
                os.rename(self.directory, gone)
                shutil.rmtree(gone)

    def watched(self) -> contextlib.AbstractContextManager[bool]:
        """For whoever reports and restarts nodes that die: one at a time. False: somebody does already."""
        return self._file.watched()

    def set(self, settings: Mapping[str, str]) -> None:
        """For every node, from its next start on."""
        with self._file.locked():
            state = self._file.read()
            state = replace(state, settings={**state.settings, **settings})
            _check_settings(state)
            self._file.write(state)

    async def start(self, names: Iterable[str] | None = None) -> None:
        """Those that do not run yet; returns once each is ready: a broker serves, a controller listens.

        None named: all but those that ``stop_one`` left out. There may still be no active controller, unless
        a broker was among them.
        """
        everyone = [node.name for node in self.nodes if not node.is_left_out]
        log_starts = self.spawn(everyone if names is None else names)
        _import_client()
        await _all(self._is_ready(name, log_start) for name, log_start in log_starts.items())

    def spawn(self, names: Iterable[str]) -> dict[str, int]:
        """As ``start``, without waiting. Returns where the log of each begins."""
        chosen = list(names)
        for node in map(self.node, chosen):
            if not node.is_running:
                check_port_is_free(node)
        self._refuse_beside_a_copy(chosen)
        return {name: self._spawn(name) for name in chosen}

    def _refuse_beside_a_copy(self, chosen: Sequence[str]) -> None:
        """Two copies that both were started once know nothing of each other: only their ports tell.

        A node that was stopped here could otherwise join those that run there, with what it has forgotten.
        """
        for node in self.nodes:
            if "controller" not in node.roles or node.is_left_out or node.is_running or node.name in chosen:
                continue
            try:
                check_port_is_free(node)
            except CannotListen as error:
                # Somebody may have started it meanwhile.
                if not self.node(node.name).is_running:
                    raise CannotListen(
                        f"{error.message}, which is not of {self.directory}: does a copy of it run?",
                        **error.facts,
                    ) from error

    async def wait_for_controller(
        self, timeout_s: float = _CONTROLLER_TIMEOUT_S
    ) -> admin_pb2.DescribeClusterResponse:
        """Until a controller is active, as some node that runs tells it."""
        try:
            async with asyncio.timeout(timeout_s):
                return await self._controller_answers()
        except TimeoutError:
            raise RequestTimedOut(
                f"no controller became active within {timeout_s:g} s; see the logs in {self.directory}"
            ) from None

    async def _controller_answers(self) -> admin_pb2.DescribeClusterResponse:
        while True:
            running = [node.name for node in self.nodes if node.is_running]
            if not running:
                raise Unavailable(f"no node of the cluster in {self.directory} runs")
            try:
                async with self.connect(*running) as connection:
                    answer = await connection.describe_cluster()
            except QuorateError as error:
                if not error.retriable:
                    raise
            else:
                if answer.HasField("controller"):
                    return answer
            await asyncio.sleep(_POLL_S)

    async def stop(self, names: Iterable[str] | None = None) -> list[str]:
        """SIGTERM, and SIGKILL for those that do not end in time: their names are returned."""
        chosen = list(self.names if names is None else names)
        with self._file.locked():
            state = self._file.read()
            for name in chosen:
                state = state.with_node(replace(state.node(name), is_wanted=False))
            self._file.write(replace(state, is_down=state.is_down or names is None))
        # Brokers first: they ask the controllers to move their leaders, and wait for it.
        brokers = [name for name in chosen if "controller" not in self.node(name).roles]
        others = [name for name in chosen if name not in brokers]
        killed: list[str] = []
        for names_together in (brokers, others):
            ended = await _all(self._end(name) for name in names_together)
            killed += [name for name, was_clean in zip(names_together, ended, strict=True) if not was_clean]
        return killed

    # -- one node of it

    async def stop_one(self, name: str) -> bool:
        """It stays stopped when the others are started, until it is itself. False: it had to be killed."""
        killed = await self.stop([name])
        with self._file.locked():
            state = self._file.read()
            self._file.write(state.with_node(replace(state.node(name), is_left_out=True)))
        return not killed

    async def restart(self, name: str) -> None:
        """Stop it if it runs, start it, wait until it listens. Whoever is interrupted leaves it started."""
        log_starts = await uninterrupted(self._stop_and_spawn(name))
        _import_client()
        await self._is_ready(name, log_starts[name])

    async def _stop_and_spawn(self, name: str) -> dict[str, int]:
        await self.stop([name])
        return self.spawn([name])

    async def kill(self, *names: str) -> None:
        """kill -9, of all of them before the first is waited for; each ends where it stands."""
        processes = {name: self.node(name).process for name in names}
        for process in processes.values():
            if process is not None:
                process.send(signal.SIGKILL)
        for name, process in processes.items():
            if process is not None:
                await _gone(process, _KILL_TIMEOUT_S)
                self.forget(name, process)

    async def pause(self, name: str) -> None:
        """SIGSTOP; returns once it stands still."""
        process = self._running(name)
        process.send(signal.SIGSTOP)
        await _until(lambda: process.is_stopped, _KILL_TIMEOUT_S)

    def resume(self, name: str) -> None:
        """SIGCONT."""
        self._running(name).send(signal.SIGCONT)

    def wipe(self, name: str) -> None:
        """Throw away the data of a node that does not run."""
        node = self.node(name)
        if node.is_running:
            raise InvalidRequest(f"{name} runs; stop it before its data is removed", node=name)
        shutil.rmtree(node.data_dir, ignore_errors=True)

    def add_broker(self) -> str:
        """Lay out one more; it joins when it is started."""
        with self._file.locked():
            state = self._file.read()
            node = new_broker(self.directory, state)
            self._file.write(replace(state, nodes=(*state.nodes, node)))
        return node.name

    def place(self, name: str, *, address: str, listener: str | None = None) -> None:
        """Others reach it at ``address``; it listens there, or at ``listener`` behind it.

        A voter only before it was started for the first time: the quorum writes down where its voters are.
        """
        with self._file.locked():
            state = self._file.read()
            node = state.node(name)
            if "controller" in node.roles and os.path.exists(node.log_file):
                raise InvalidRequest(f"{name} was started already, where it is", node=name)
            old, new = f"{node.id}@{node.address}", f"{node.id}@{address}"
            founders = [new if voter == old else voter for voter in state.founding_voters.split(",")]
            state = state.with_node(replace(node, address=address, listener=listener))
            self._file.write(replace(state, founding_voters=",".join(founders)))

    def surround(
        self, name: str, *, launcher: Sequence[str] = (), environment: Mapping[str, str] | None = None
    ) -> None:
        """From its next start on: ``launcher`` before its command, and these variables beside ours.

        A launcher's first word is the path of a program, which has to become the node by ``exec``: a kill
        would not reach the node otherwise. What it was surrounded with before stays.
        """
        with self._file.locked():
            state = self._file.read()
            node = state.node(name)
            node = replace(
                node,
                launcher=(*launcher, *node.launcher),
                environment={**node.environment, **(environment or {})},
            )
            self._file.write(state.with_node(node))

    def start_again(self, name: str) -> bool:
        """After it died, without waiting for it. False: meanwhile somebody stopped or started it."""
        with self._file.locked():
            state = self._file.read()
            node = state.node(name)
            if not node.is_wanted or node.is_running:
                return False
            check_port_is_free(node)
            self._file.write(state.with_node(replace(node, process=_spawn(node, _settings(node, state)))))
            return True

    def forget(self, name: str, process: ProcessIdentity) -> None:
        """It has ended: cluster.json stops naming it."""
        # Whoever watches over a temporary cluster removes it when its last node has ended.
        with contextlib.suppress(FileNotFoundError), self._file.locked():
            if not self._file.exists:
                return
            state = self._file.read()
            node = state.node(name)
            # Somebody may have started the node again meanwhile.
            if node.process == process:
                self._file.write(state.with_node(replace(node, process=None)))

    # -- processes

    def _running(self, name: str) -> ProcessIdentity:
        process = self.node(name).process
        if process is None or not process.is_running:
            raise InvalidRequest(f"{name} does not run", node=name)
        return process

    def _spawn(self, name: str) -> int:
        """Unless it runs. Returns where its log begins: what stands before is an earlier process's."""
        with self._file.locked():
            state = self._file.read()
            node = state.node(name)
            log_start = 0 if node.is_running else log_size(node.log_file)
            process = node.process if node.is_running else _spawn(node, _settings(node, state))
            state = state.with_node(replace(node, process=process, is_wanted=True, is_left_out=False))
            self._file.write(replace(state, is_down=False))
        return log_start

    async def _is_ready(self, name: str, log_start: int) -> None:
        node = self.node(name)
        deadline = asyncio.get_running_loop().time() + _READY_TIMEOUT_S
        while not _is_ready(node):
            if node.process is None or not _is_alive(node.process):
                raise _not_ready(node, "did not start: it ended", log_start)
            if asyncio.get_running_loop().time() > deadline:
                raise _not_ready(node, f"runs, but is not ready after {_READY_TIMEOUT_S:g} s", log_start)
            await asyncio.sleep(_POLL_S)

    def _config_of(self, name: str) -> NodeConfig:
        state = self._file.read()
        return _config(_settings(state.node(name), state))

    async def _end(self, name: str) -> bool:
        """True: it ended when asked, or did not run."""
        process = self.node(name).process
        if process is None:
            return True
        process.send(signal.SIGTERM)
        process.send(signal.SIGCONT)  # a paused one would never hear it
        try:
            await _gone(process, longest_stop_s(self._config_of(name)) + _STOP_MARGIN_S)
            is_clean = True
        except TimeoutError:
            await _let_it_tell_why(process, self.node(name).log_file)
            process.send(signal.SIGKILL)
            await _gone(process, _KILL_TIMEOUT_S)
            is_clean = False
        self.forget(name, process)
        return is_clean


def _refuse_data_without_a_cluster(directory: str) -> None:
    """Nodes of a new cluster would find it, and refuse to start on it one by one."""
    left = nodes_left_in(directory)
    if left and not LocalCluster.exists_in(directory):
        raise InvalidRequest(
            f"{directory} holds the data of {', '.join(left)}, and no cluster.json, which says how they "
            "reach one another; put an earlier copy of it back, or choose another directory",
            path=directory,
        )


def _check_settings(state: ClusterState) -> None:
    """Here, where it can be told at once, and not in the log of a node that does not start."""
    for key in state.settings:
        if key in _OWN_KEYS:
            raise InvalidConfig(f"{key}: the cluster gives each node a value of its own", key=key)
    _config(_settings(state.nodes[0], state))


def _settings(node: ClusterNode, state: ClusterState) -> dict[str, str]:
    own = f"{node.id}@{node.address}"
    voters = state.founding_voters.split(",")
    if "controller" in node.roles and own not in voters:
        voters.append(own)
    return {
        **state.settings,
        "cluster.id": state.cluster_id,
        "node.id": str(node.id),
        "node.roles": ",".join(node.roles),
        "listeners": node.listens_on,
        "advertised.address": node.address,
        "controller.voters": ",".join(voters),
        "data.dir": node.data_dir,
        "metrics.address": node.metrics_address or "",
    }


def _config(settings: Mapping[str, str]) -> NodeConfig:
    options = [f"{key}={value}" for key, value in settings.items()]
    return load_node_config(None, set_options=options, environment={})


def _spawn(node: ClusterNode, settings: Mapping[str, str]) -> ProcessIdentity:
    os.makedirs(os.path.dirname(node.log_file), exist_ok=True)
    command = [*node.launcher, *node_command(settings)]
    # Not by subprocess: its object wants to be waited for, and `up --detach` leaves nodes behind.
    pid = os.posix_spawn(
        command[0],
        command,
        {**node_environment(), **node.environment},
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, node.stdout_file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644),
            (os.POSIX_SPAWN_OPEN, 2, node.log_file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644),
        ],
        setsid=True,
    )
    identity = ProcessIdentity.of(pid)
    assert identity is not None  # until we reap it, even a child that has ended keeps its pid
    return identity


def _import_client() -> None:
    """While nodes are on their way: it takes as long as all before, and is needed when they are ready."""
    import quorate.client.impatient_admin  # noqa: F401  # for whoever imports it next


def _is_ready(node: ClusterNode) -> bool:
    with open(node.stdout_file, encoding="utf-8") as file:
        return any(line.startswith(READY_PREFIX) and line.endswith("\n") for line in file)


def _is_alive(process: ProcessIdentity) -> bool:
    reap(process.pid)
    return process.is_running


def _not_ready(node: ClusterNode, what: str, log_start: int) -> Unavailable:
    tail = log_tail(node.log_file, log_start)
    return Unavailable(f"{node.name} {what}; the end of {node.log_file}:\n{tail}", node=node.name)


async def _let_it_tell_why(process: ProcessIdentity, log_file: str) -> None:
    """What hangs is told by its stacks alone, and they die with it."""
    size = log_size(log_file)
    if process.send(STACK_DUMP_SIGNAL):
        with contextlib.suppress(TimeoutError):
            await _until(lambda: log_size(log_file) > size, _DUMP_TIMEOUT_S)


async def _gone(process: ProcessIdentity, timeout_s: float) -> None:
    await _until(lambda: not _is_alive(process), timeout_s)


async def _all(work: Iterable[Coroutine[None, None, T]]) -> list[T]:
    """Every result, or the first error once all have ended: none is left running."""
    results = await asyncio.gather(*work, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return results  # type: ignore[return-value]  # no exception is left in it


async def _until(is_so: Callable[[], bool], timeout_s: float) -> None:
    async with asyncio.timeout(timeout_s):
        while not is_so():  # noqa: ASYNC110  # about other processes: nobody sets an event for us
            await asyncio.sleep(_POLL_S)
