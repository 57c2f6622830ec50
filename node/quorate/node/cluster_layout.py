"""Who is in a new local cluster, and on which ports."""

from __future__ import annotations

import os
import random
import re
import socket
import uuid
from collections.abc import Mapping
from itertools import islice
from typing import Final, NamedTuple

from quorate.errors import CannotListen, InvalidRequest
from quorate.node.cluster_file import ClusterNode, ClusterState

__all__ = ["HOST", "check_port_is_free", "free_ports", "new_broker", "new_cluster", "nodes_left_in"]

HOST: Final = "127.0.0.1"

_FIRST_BROKER_ID: Final = 1
#: Leaves room for brokers: ids are unique among all nodes.
_FIRST_CONTROLLER_ID: Final = 101

_NODE_NAME: Final = re.compile(r"(broker|controller|node)-[0-9]+")
_BROKER: Final = "broker"
_CONTROLLER: Final = "controller"

_PORT_MIN: Final = 10_000
_PORT_MAX: Final = 65_535
#: below what most systems hand out to outgoing connections
_OUTGOING_PORT_MIN: Final = 32_768
_PORT_ATTEMPTS_MAX: Final = 1_000


def new_cluster(
    directory: str,
    *,
    controllers: int,
    brokers: int,
    is_combined: bool = False,
    port: int,
    settings: Mapping[str, str],
    is_temporary: bool,
) -> ClusterState:
    """Nothing of it is on disk or runs yet. ``port`` 0: any that are free.

    Brokers come first, so that the port that was asked for is one that takes records. Behind the nodes' ports
    come those of their metrics, as far as they are free.
    """
    if is_combined:
        layout = _combined(brokers)
    else:
        layout = [_broker(_FIRST_BROKER_ID + index) for index in range(brokers)]
        layout += [_controller(_FIRST_CONTROLLER_ID + index) for index in range(controllers)]
    if not any(_CONTROLLER in member.roles for member in layout):
        raise InvalidRequest("a cluster has at least one controller")
    if port + len(layout) - 1 > _PORT_MAX:
        raise InvalidRequest(f"--port {port}: {len(layout)} ports from there on go beyond {_PORT_MAX}")
    if port:
        ports = list(range(port, port + len(layout)))
        metrics_ports = _next_free_ports(len(layout), taken=set(ports))
    else:
        found = free_ports(2 * len(layout))
        ports, metrics_ports = found[: len(layout)], found[len(layout) :]
    nodes = tuple(
        _node(directory, member, each, metrics_port)
        for member, each, metrics_port in zip(layout, ports, metrics_ports, strict=True)
    )
    return ClusterState(
        cluster_id=f"local-{uuid.uuid4()}",
        nodes=nodes,
        founding_voters=",".join(f"{node.id}@{node.address}" for node in nodes if _CONTROLLER in node.roles),
        settings=dict(settings),
        is_temporary=is_temporary,
    )


def nodes_left_in(directory: str) -> list[str]:
    """The names of those whose data is there."""
    try:
        names = os.listdir(directory)
    except OSError:
        return []
    return sorted(
        name for name in names if _NODE_NAME.fullmatch(name) and _has_data(f"{directory}/{name}/data")
    )


def _has_data(data_dir: str) -> bool:
    return os.path.isdir(data_dir) and bool(os.listdir(data_dir))


def new_broker(directory: str, state: ClusterState) -> ClusterNode:
    """One more; it joins when it starts. It listens on the next ports that are free."""
    addresses = [node.listens_on for node in state.nodes]
    addresses += [node.metrics_address for node in state.nodes if node.metrics_address is not None]
    port, metrics_port = _next_free_ports(2, taken=set(map(_port, addresses)))
    taken = [node.id for node in state.nodes if node.id < _FIRST_CONTROLLER_ID]
    return _node(directory, _broker(max(taken, default=_FIRST_BROKER_ID - 1) + 1), port, metrics_port)


class _Member(NamedTuple):
    name: str
    node_id: int
    roles: tuple[str, ...]


def _broker(node_id: int) -> _Member:
    return _Member(f"broker-{node_id}", node_id, (_BROKER,))


def _controller(node_id: int) -> _Member:
    return _Member(f"controller-{node_id}", node_id, (_CONTROLLER,))


def _combined(count: int) -> list[_Member]:
    """The first three are voters too, or five where there are as many: an even number survives no more."""
    voters = 5 if count >= 5 else min(count, 3)
    both = [
        _Member(f"node-{node_id}", node_id, (_CONTROLLER, _BROKER))
        for node_id in range(_FIRST_BROKER_ID, _FIRST_BROKER_ID + voters)
    ]
    return both + [_broker(node_id) for node_id in range(_FIRST_BROKER_ID + voters, _FIRST_BROKER_ID + count)]


def _node(directory: str, member: _Member, port: int, metrics_port: int) -> ClusterNode:
    return ClusterNode(
        name=member.name,
        id=member.node_id,
        roles=member.roles,
        address=f"{HOST}:{port}",
        data_dir=f"{directory}/{member.name}/data",
        log_file=f"{directory}/{member.name}/node.log",
        metrics_address=f"{HOST}:{metrics_port}",
    )


def check_port_is_free(node: ClusterNode) -> None:
    """Of other hosts than this machine's own, in other network namespaces, nothing can be told from here."""
    if not node.listens_on.startswith(f"{HOST}:"):
        return
    for address in (node.listens_on, node.metrics_address):
        if address is not None and not _is_free(_port(address)):
            raise CannotListen(
                f"{node.name} has to listen on {address}, and another process does", address=address
            )


def free_ports(count: int) -> list[int]:
    """Outside the range of outgoing connections: one of those could take the port of a node that is down."""
    end = _outgoing_ports_begin()
    ports: list[int] = []
    for _ in range(_PORT_ATTEMPTS_MAX):
        port = random.randrange(_PORT_MIN, end)
        if port not in ports and _is_free(port):
            ports.append(port)
            if len(ports) == count:
                return ports
    raise CannotListen(f"no {count} free ports from {_PORT_MIN} to {end} on {HOST}")


def _next_free_ports(count: int, *, taken: set[int]) -> list[int]:
    """Behind those that are taken, by nodes that need not be running; anywhere, if there is no room."""
    behind = range(max(taken) + 1, _PORT_MAX + 1)
    ports = list(islice(filter(_is_free, behind), count))
    return ports if len(ports) == count else free_ports(count)


def _port(address: str) -> int:
    return int(address.rpartition(":")[2])


def _outgoing_ports_begin() -> int:
    try:
        with open("/proc/sys/net/ipv4/ip_local_port_range", encoding="ascii") as file:
            begin = int(file.read().split()[0])
    except FileNotFoundError:
        return _OUTGOING_PORT_MIN
    return begin if begin > _PORT_MIN + _PORT_ATTEMPTS_MAX else _OUTGOING_PORT_MIN


def _is_free(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # As the node will: connections of an earlier run that linger do not count.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True
