"""Clients outside of the cluster, by the addresses that the overlay prod-outside gives to brokers.

Two things are whoever's the cluster is, and have to be there: the rule of its DNS by which pods find brokers
under these names, and a way from outside to its load balancers. Where nobody gives a service an address, the
test does, as a load balancer would: the cluster's own rules then lead from that address to the pod.
"""

from __future__ import annotations

import asyncio
import json
import shlex
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from deploy.k8s.test.errands import LOAD_POD, Errands
from deploy.k8s.test.kubernetes import SETS, Kubernetes
from deploy.test.commands import CannotTest, run

__all__ = ["Outside", "WayIn", "try_outside", "way_in"]

_, _BROKERS = SETS
_OVERLAY: Final = Path(__file__).resolve().parents[1] / "overlays" / "prod-outside"
_VARIABLE: Final = "QUORATE_ADVERTISED_ADDRESS"
_TOPIC: Final = "outside"
_PARTITIONS: Final = 6
_RECORDS: Final = 300
_ADDRESS_TIMEOUT_S: Final = 120.0
_POLL_S: Final = 1.0
#: in a mount namespace of its own, which takes root
_ENTER_NAMES: Final = 'mount --bind "$0" /etc/hosts && exec "$@"'
#: where a pod finds a name: a line for each
_LOOK_UP: Final = "import socket, sys; [print(socket.gethostbyname(name)) for name in sys.argv[1:]]"


class Outside:
    """``command`` runs there what follows it. No DNS knows ``addresses``: names are entered for it alone."""

    def __init__(self, command: str, addresses: Sequence[str] = ()) -> None:
        self._command = command
        #: for services to which nobody gives one
        self.addresses = tuple(addresses)

    async def quorate(self, bootstrap: str, hosts: str, *arguments: str, text: str = "") -> str:
        """The command line, from outside."""
        names = ("unshare", "--mount", "sh", "-c", _ENTER_NAMES, hosts) if self.addresses else ()
        program = (sys.executable, "-m", "quorate.console.main", "--bootstrap", bootstrap)
        return await run(
            *(*shlex.split(self._command), *names, *program, *arguments),
            text=text,
            timeout_s=120.0,
            has_errors=False,
        )


@dataclass(frozen=True, slots=True)
class WayIn:
    """What the overlay adds to prod for clients outside."""

    #: the services and the policy that lets clients in
    documents: tuple[dict[str, Any], ...]
    #: of a broker, with its pod's name as a variable
    address: str

    @property
    def services(self) -> list[str]:
        return sorted(each["metadata"]["name"] for each in self.documents if each["kind"] == "Service")

    def address_of(self, broker: str) -> str:
        return self.address.replace("$(POD_NAME)", broker)


def way_in(documents: Sequence[dict[str, Any]]) -> WayIn:
    """``documents``: of the whole overlay."""
    added = [
        each
        for each in documents
        if (each["kind"] == "Service" and each["spec"].get("type") == "LoadBalancer")
        or (each["kind"] == "NetworkPolicy" and each["metadata"]["name"] == "quorate-outside")
    ]
    [brokers] = [
        each for each in documents if each["kind"] == "StatefulSet" and each["metadata"]["name"] == _BROKERS
    ]
    [container] = brokers["spec"]["template"]["spec"]["containers"]
    [address] = [each["value"] for each in container["env"] if each["name"] == _VARIABLE]
    return WayIn(tuple(added), address)


async def try_outside(kubernetes: Kubernetes, errands: Errands, outside: Outside) -> str:
    """What there is to tell. Brokers keep the addresses."""
    built = await kubernetes.call("kustomize", str(_OVERLAY))
    way = way_in(list(yaml.safe_load_all(built)))
    await _check_names_inside(kubernetes, way)
    await kubernetes.create(yaml.safe_dump_all(way.documents))
    await kubernetes.inside("set", "env", f"statefulset/{_BROKERS}", f"{_VARIABLE}={way.address}")
    await kubernetes.rolled_out(_BROKERS)
    balancers = await _balancers(kubernetes, way, outside.addresses)
    with tempfile.NamedTemporaryFile("w", prefix="quorate-hosts-") as hosts:
        lines = [f"{address} {_host(way.address_of(name))}\n" for name, address in balancers.items()]
        hosts.write("".join(["127.0.0.1 localhost\n", *lines]))
        hosts.flush()
        return await _write_and_read(errands, outside, way, hosts.name)


async def _check_names_inside(kubernetes: Kubernetes, way: WayIn) -> None:
    """Before brokers have these names: without the rule they would not find each other."""
    pods = {pod.name: pod.ip for pod in await kubernetes.pods(_BROKERS)}
    if sorted(pods) != way.services:
        raise CannotTest(f"the brokers are {sorted(pods)}, and there are services for {way.services}")
    names = [_host(way.address_of(name)) for name in pods]
    looked_up = await kubernetes.inside(
        "exec", LOAD_POD, "--", "python3", "-c", _LOOK_UP, *names, is_checked=False
    )
    found = dict(zip(pods, looked_up.split(), strict=False))
    if found != pods:
        raise CannotTest(
            f"inside, the names {', '.join(names)} lead to {found or 'nothing'}, and the pods are {pods}: "
            "the DNS of the cluster lacks the rule of deploy/k8s/README.md"
        )


async def _balancers(kubernetes: Kubernetes, way: WayIn, ours: Sequence[str]) -> dict[str, str]:
    """The address of each service; ``ours``: to give to those that nobody gives one."""
    if ours:
        if len(ours) != len(way.services):
            raise CannotTest(f"{len(way.services)} services take so many --load-balancers, not {len(ours)}")
        for name, address in zip(way.services, ours, strict=True):
            status = {"status": {"loadBalancer": {"ingress": [{"ip": address}]}}}
            await kubernetes.inside(
                *("patch", "service", name, "--subresource=status", "--type=merge"),
                *("--patch", json.dumps(status)),
            )
    deadline = time.monotonic() + _ADDRESS_TIMEOUT_S
    while not all((found := {name: await _balancer(kubernetes, name) for name in way.services}).values()):
        if time.monotonic() > deadline:
            raise CannotTest(
                f"load balancers after {_ADDRESS_TIMEOUT_S:g} s: {found}; where the cluster has none, give "
                "--load-balancers addresses that lead from outside to its machine"
            )
        await asyncio.sleep(_POLL_S)
    return found


async def _balancer(kubernetes: Kubernetes, name: str) -> str:
    """Empty: it has none yet."""
    told = json.loads(await kubernetes.inside("get", "service", name, "--output", "json"))
    given = told["status"].get("loadBalancer", {}).get("ingress", [{}])[0]
    return str(given.get("ip") or given.get("hostname") or "")


async def _write_and_read(errands: Errands, outside: Outside, way: WayIn, hosts: str) -> str:
    addresses = {int(name.rpartition("-")[2]): way.address_of(name) for name in way.services}
    first, *_ = addresses.values()
    for address in addresses.values():
        told = await _brokers_told_at(outside, address, hosts)
        if told != addresses:
            raise CannotTest(f"outside, brokers are told of at {told}, not {addresses}")
    assignment = ",".join(_replicas(sorted(addresses), number) for number in range(_PARTITIONS))
    await outside.quorate(first, hosts, "topic", "create", _TOPIC, "--assignment", assignment)
    records = [f"record {number}" for number in range(_RECORDS)]
    # One leads each partition, and no two neighbours: every broker has to be reached.
    for number in range(_PARTITIONS):
        await outside.quorate(
            first,
            hosts,
            *("produce", _TOPIC, "--partition", str(number)),
            text="".join(f"{record}\n" for record in records[number::_PARTITIONS]),
        )
    everybody = ",".join(addresses.values())
    read = await outside.quorate(everybody, hosts, "consume", _TOPIC, "--exit-at-end")
    _compare("outside", read, records)
    _compare("inside", await errands.quorate("consume", _TOPIC, "--exit-at-end"), records)
    return (
        f"{len(records)} records written from outside to {_PARTITIONS} partitions of {len(addresses)} "
        "leaders by their own addresses, and read outside and inside"
    )


async def _brokers_told_at(outside: Outside, address: str, hosts: str) -> dict[int, str]:
    """A balancer leads to its pod once every machine knows of the two, which nobody can be asked about."""
    deadline = time.monotonic() + _ADDRESS_TIMEOUT_S
    while True:
        try:
            answer = await outside.quorate(address, hosts, "broker", "list", "--output", "json")
        except CannotTest:
            if time.monotonic() > deadline:
                raise
        else:
            return {each["id"]: each["address"] for each in json.loads(answer)["brokers"]}
        await asyncio.sleep(_POLL_S)


def _replicas(brokers: Sequence[int], partition: int) -> str:
    turn = partition % len(brokers)
    return ":".join(str(each) for each in [*brokers[turn:], *brokers[:turn]])


def _compare(where: str, read: str, written: Sequence[str]) -> None:
    if sorted(read.splitlines()) != sorted(written):
        raise CannotTest(f"{where}, {len(read.splitlines())} records are read, of {len(written)} written")


def _host(address: str) -> str:
    return address.rpartition(":")[0]
