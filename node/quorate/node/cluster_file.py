"""``cluster.json``: every node of a local cluster, for whoever wants to find, stop or kill one.

Several programs change it (``up``, ``restart``, ``down``, a drill), so a change is made under a lock and
appears whole: written under another name, then renamed. It says what is wanted of a node beside what its
process is; without that, nobody could tell a node that died from one that was stopped on purpose.

A directory may be moved, or copied, while nothing runs. A copy of one that runs is refused, whatever it is
asked: it names the original's processes, so it would stop those, and start a voter beside them on files that
have forgotten how that voter voted. The same holds for a copy made earlier, for as long as the original runs.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from quorate.errors import InvalidRequest
from quorate.node.process_identity import ProcessIdentity

__all__ = ["CLUSTER_FILE", "ClusterFile", "ClusterNode", "ClusterState"]

CLUSTER_FILE: Final = "cluster.json"
_LOCK_FILE: Final = "cluster.lock"
_WATCH_FILE: Final = "up.lock"


@dataclass(frozen=True, slots=True)
class ClusterNode:
    name: str
    id: int
    roles: tuple[str, ...]
    #: host:port where others reach it, the same for as long as the cluster's directory lives
    address: str
    data_dir: str
    #: standard error: the node's log
    log_file: str
    #: None: never started, or known to have ended
    process: ProcessIdentity | None = None
    #: False: stopped on purpose (or not started yet)
    is_wanted: bool = False
    #: stopped by itself, and not with the others: it is not started with them either
    is_left_out: bool = False
    #: host:port where it listens, if something stands between it and those who reach it
    listener: str | None = None
    #: words before its command: a program that runs it in other surroundings
    launcher: tuple[str, ...] = ()
    #: variables of its environment beside those of whoever starts it
    environment: Mapping[str, str] = field(default_factory=dict)
    #: host:port of its metrics; None: made by a version that had none
    metrics_address: str | None = None

    @property
    def is_running(self) -> bool:
        return self.process is not None and self.process.is_running

    @property
    def listens_on(self) -> str:
        return self.listener or self.address

    @property
    def stdout_file(self) -> str:
        return f"{os.path.dirname(self.log_file)}/stdout"


@dataclass(frozen=True, slots=True)
class ClusterState:
    cluster_id: str
    nodes: tuple[ClusterNode, ...]
    #: ``controller.voters`` of the nodes that founded the cluster
    founding_voters: str
    #: settings of every node beside those that make it the node it is
    settings: Mapping[str, str]
    #: made without a directory of the user's own: whoever stops the cluster removes it
    is_temporary: bool = False
    #: stopped as a whole, by `quorate down` or the end of `quorate up`
    is_down: bool = False

    def node(self, name: str) -> ClusterNode:
        for each in self.nodes:
            if each.name == name:
                return each
        names = ", ".join(each.name for each in self.nodes)
        raise InvalidRequest(f"there is no node {name}; there are {names}", node=name)

    def with_node(self, node: ClusterNode) -> ClusterState:
        """In place of the one of the same name."""
        return replace(self, nodes=tuple(node if each.name == node.name else each for each in self.nodes))


class ClusterFile:
    """The file in ``directory``."""

    def __init__(self, directory: str) -> None:
        self.directory = os.path.abspath(directory)
        self.path = f"{self.directory}/{CLUSTER_FILE}"

    @property
    def exists(self) -> bool:
        return os.path.exists(self.path)

    def read(self) -> ClusterState:
        try:
            state, home = self._content()
        except FileNotFoundError:
            raise InvalidRequest(
                f"{self.directory} holds no local cluster: there is no {CLUSTER_FILE}; "
                f"`quorate up --dir {self.directory}` makes one, unless yours is somewhere else",
                path=self.path,
            ) from None
        except KeyError as error:
            raise self._foreign(f"there is no {error.args[0]}") from error
        except ValueError as error:
            raise self._foreign(f"it is no JSON: {error}") from error
        except (TypeError, AttributeError) as error:
            raise self._foreign("something in it is of another kind") from error
        if home is not None and not _is_same(home, self.directory):
            self._refuse_if_any_runs_from(home, state)
        return state

    def _content(self) -> tuple[ClusterState, str | None]:
        """With the directory in which it was written, as far as it says so."""
        with open(self.path, encoding="utf-8") as file:
            document = json.load(file)
        state = _state(document, self.directory)
        return state, next(filter(None, map(_home, document["nodes"])), None)

    def _refuse_if_any_runs_from(self, home: str, state: ClusterState) -> None:
        """As far as this file knows, or the one that is still there."""
        original = _original(home, state.cluster_id)
        running = [
            node for each in (state, original) if each is not None for node in each.nodes if node.is_running
        ]
        if not running:
            return
        node = running[0]
        assert node.process is not None
        what_to_do = (
            f"use --dir {home}, or stop it there first"
            if original is not None
            else "move it back, and stop it there"
        )
        raise InvalidRequest(
            f"{node.name} (pid {node.process.pid}) runs from {home}, and {self.directory} is a copy, or "
            f"was moved while it ran; nothing is stopped or started from here: {what_to_do}",
            path=self.path,
        )

    def _foreign(self, why: str) -> InvalidRequest:
        return InvalidRequest(
            f"{self.path} is not what `quorate up` writes: {why}; put an earlier copy of it back, or choose "
            "another directory",
            path=self.path,
        )

    def write(self, state: ClusterState) -> None:
        """Only inside ``locked``."""
        temporary = f"{self.path}.tmp"
        with open(temporary, "w", encoding="utf-8") as file:
            json.dump(_document(state), file, indent=2)
            file.write("\n")
        os.replace(temporary, self.path)

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Between reading the state and writing it nobody else does either. Never awaits inside."""
        descriptor = os.open(f"{self.directory}/{_LOCK_FILE}", os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    @contextlib.contextmanager
    def watched(self) -> Iterator[bool]:
        """As long as inside, nobody else watches over the cluster. False: somebody does already."""
        descriptor = os.open(f"{self.directory}/{_WATCH_FILE}", os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            is_ours = False
        else:
            is_ours = True
        try:
            yield is_ours
        finally:
            os.close(descriptor)


def _home(node: dict[str, Any]) -> str | None:
    data_dir, suffix = node.get("data_dir"), f"/{node['name']}/data"
    return data_dir.removesuffix(suffix) if isinstance(data_dir, str) and data_dir.endswith(suffix) else None


def _is_same(home: str, directory: str) -> bool:
    """It may be reached by another name, through a link."""
    try:
        return home == directory or os.path.samefile(home, directory)
    except OSError:
        return False


def _original(home: str, cluster_id: str) -> ClusterState | None:
    """None: nothing is there any more, or something else."""
    try:
        state, _ = ClusterFile(home)._content()  # noqa: SLF001  # it may be a copy itself: none of our business
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return state if state.cluster_id == cluster_id else None


def _document(state: ClusterState) -> dict[str, Any]:
    return {
        "cluster_id": state.cluster_id,
        "founding_voters": state.founding_voters,
        "settings": dict(state.settings),
        "is_temporary": state.is_temporary,
        "is_down": state.is_down,
        "nodes": [_node_document(node) for node in state.nodes],
    }


def _node_document(node: ClusterNode) -> dict[str, Any]:
    return {
        "name": node.name,
        "id": node.id,
        "roles": list(node.roles),
        "address": node.address,
        "metrics_address": node.metrics_address,
        "pid": node.process.pid if node.process is not None else None,
        "process_started": node.process.started if node.process is not None else None,
        "is_wanted": node.is_wanted,
        "is_left_out": node.is_left_out,
        "data_dir": node.data_dir,
        "log_file": node.log_file,
        "listener": node.listener,
        "launcher": list(node.launcher),
        "environment": dict(node.environment),
    }


def _state(document: dict[str, Any], directory: str) -> ClusterState:
    return ClusterState(
        cluster_id=document["cluster_id"],
        nodes=tuple(_node(each, directory) for each in document["nodes"]),
        founding_voters=document["founding_voters"],
        settings=dict(document["settings"]),
        is_temporary=document["is_temporary"],
        is_down=document["is_down"],
    )


def _node(document: dict[str, Any], directory: str) -> ClusterNode:
    name, pid = document["name"], document["pid"]
    return ClusterNode(
        name=name,
        id=document["id"],
        roles=tuple(document["roles"]),
        address=document["address"],
        # From where the file is, not from what it says: a directory may be moved while nothing runs.
        data_dir=f"{directory}/{name}/data",
        log_file=f"{directory}/{name}/node.log",
        process=None if pid is None else ProcessIdentity(pid, document["process_started"]),
        is_wanted=document["is_wanted"],
        # Files of earlier versions do not have them.
        is_left_out=document.get("is_left_out", False),
        listener=document.get("listener"),
        launcher=tuple(document.get("launcher", ())),
        environment=dict(document.get("environment", {})),
        metrics_address=document.get("metrics_address"),
    )
