"""Who is in a new local cluster, and on which ports."""

from __future__ import annotations

import random
import socket
import uuid
from collections.abc import Mapping
from typing import Final

from quorate.errors import CannotListen, InvalidRequest, UnsupportedOperation
from quorate.node.cluster_file import ClusterNode, ClusterState

__all__ = ["HOST", "check_port_is_free", "free_ports", "new_cluster", "new_controller"]

HOST: Final = "127.0.0.1"

#: Brokers count from 1, so these leave room for them: ids are unique among all nodes.
_FIRST_CONTROLLER_ID: Final = 101

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
    port: int,
    settings: Mapping[str, str],
    is_temporary: bool,
) -> ClusterState:
    """Nothing of it is on disk or runs yet. ``port`` 0: any that are free."""
    if brokers:
        raise UnsupportedOperation(
            f"--brokers {brokers}: brokers do not join a metadata quorum in this version; run the "
            "controllers alone with --brokers 0, or a single broker with `quorate node run`"
        )
    if controllers < 1:
        raise InvalidRequest("a cluster has at least one controller")
    if port + controllers - 1 > _PORT_MAX:
        raise InvalidRequest(f"--port {port}: {controllers} ports from there on go beyond {_PORT_MAX}")
    ports = list(range(port, port + controllers)) if port else free_ports(controllers)
    nodes = tuple(
        _controller(directory, _FIRST_CONTROLLER_ID + index, each) for index, each in enumerate(ports)
    )
    return ClusterState(
        cluster_id=f"local-{uuid.uuid4()}",
        nodes=nodes,
        founding_voters=",".join(f"{node.id}@{node.address}" for node in nodes),
        settings=dict(settings),
        is_temporary=is_temporary,
    )


def new_controller(directory: str, state: ClusterState) -> ClusterNode:
    """One more, to be added to the quorum once it runs."""
    [port] = free_ports(1)
    taken = [node.id for node in state.nodes]
    return _controller(directory, max(taken, default=_FIRST_CONTROLLER_ID - 1) + 1, port)


def _controller(directory: str, node_id: int, port: int) -> ClusterNode:
    name = f"controller-{node_id}"
    return ClusterNode(
        name=name,
        id=node_id,
        roles=("controller",),
        address=f"{HOST}:{port}",
        data_dir=f"{directory}/{name}/data",
        log_file=f"{directory}/{name}/node.log",
    )


def check_port_is_free(node: ClusterNode) -> None:
    port = int(node.address.rpartition(":")[2])
    if not _is_free(port):
        raise CannotListen(
            f"{node.name} has to listen on {node.address}, and another process does", address=node.address
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
