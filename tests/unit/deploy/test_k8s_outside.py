"""The step `outside` where there is no Kubernetes: whom it asks by which address, and what it refuses."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.k8s.test import __main__ as program
from deploy.k8s.test import outside
from deploy.k8s.test.kubernetes import Kubernetes, Pod
from deploy.k8s.test.outside import Outside, try_outside, way_in
from deploy.test.commands import CannotTest
from tests.unit.deploy.deploy_files import DEPLOY
from tests.unit.deploy.fake_kubernetes import pod
from tests.unit.deploy.manifests import built

BROKERS = [f"quorate-broker-{number}" for number in (1, 2, 3)]
ADDRESSES = {name: f"{name}.quorate.example.com:9092" for name in BROKERS}
BALANCERS = ["10.9.0.1", "10.9.0.2", "10.9.0.3"]


class Cluster(Kubernetes):
    """Its DNS has the rule, and its load balancers give ``given`` addresses."""

    def __init__(self, *given: str) -> None:
        super().__init__("no kubectl")
        self.names = {
            f"{name}.quorate.example.com": f"10.0.0.{number}" for number, name in enumerate(BROKERS, 1)
        }
        self.balancers: dict[str, str] = dict(zip(BROKERS, given, strict=False))
        self.advertised = "inside"
        self.brokers = list(BROKERS)
        self.done: list[str] = []

    async def pods(self, *sets: str) -> list[Pod]:
        return [pod(name, name, ip=f"10.0.0.{number}") for number, name in enumerate(self.brokers, 1)]

    async def rolled_out(self, name: str) -> None:
        self.done.append(f"rolled {name}")

    async def create(self, documents: str) -> None:
        self.done.append("services")

    async def call(self, *arguments: str, timeout_s: float = 120.0, is_checked: bool = True) -> str:
        match arguments:
            case ("kustomize", directory):
                return yaml.safe_dump_all(built(Path(directory).name))
            case (_, _, "exec", "quorate-load", "--", "python3", "-c", _, *names):
                self.done.append("names")
                return "\n".join(self.names[name] for name in names if name in self.names)
            case (_, _, "set", "env", "statefulset/quorate-broker", setting):
                self.advertised = setting
                return ""
            case (_, _, "patch", "service", name, "--subresource=status", "--type=merge", "--patch", patch):
                [given] = json.loads(patch)["status"]["loadBalancer"]["ingress"]
                self.balancers[name] = given["ip"]
                return ""
            case (_, _, "get", "service", name, *_):
                given = [{"ip": self.balancers[name]}] if name in self.balancers else []
                return json.dumps({"status": {"loadBalancer": {"ingress": given} if given else {}}})
            case _:
                raise AssertionError(arguments)


class Clients:
    """What is written outside is read everywhere, but for ``lost``; in the pod it is errands, too."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, lost: int = 0, unanswered: int = 0) -> None:
        self.records: list[str] = []
        self.told = dict(ADDRESSES)
        self.hosts = ""
        self.written: list[str] = []
        self._lost = lost
        self._unanswered = unanswered
        monkeypatch.setattr(outside, "run", self.run)

    async def run(self, *command: str, text: str = "", **_: Any) -> str:
        way, program = command[: command.index(sys.executable)], command[command.index(sys.executable) + 1 :]
        assert way[:2] == ("enter", "it")
        if way[2:]:
            assert way[2:5] == ("unshare", "--mount", "sh")
            self.hosts = read(way[-1])
        assert program[:3] == ("-m", "quorate.console.main", "--bootstrap")
        return await self.quorate(*program[4:], text=text)

    async def quorate(self, *arguments: str, text: str = "") -> str:
        match arguments:
            case ("broker", "list", "--output", "json"):
                if self._unanswered:
                    self._unanswered -= 1
                    raise CannotTest("cannot connect")
                listed = [{"id": int(name[-1]), "address": address} for name, address in self.told.items()]
                return json.dumps({"brokers": listed})
            case ("topic", "create", _, "--assignment", assignment):
                leaders = [each.partition(":")[0] for each in assignment.split(",")]
                assert sorted(leaders) == ["1", "1", "2", "2", "3", "3"]
            case ("produce", _, "--partition", number):
                self.written.append(number)
                self.records += text.splitlines()
            case ("consume", _, "--exit-at-end"):
                return "\n".join(self.records[self._lost :])
            case _:
                raise AssertionError(arguments)
        return ""


def read(path: str) -> str:
    return Path(path).read_text()


async def tried(cluster: Cluster, clients: Clients, *given: str) -> str:
    errands: Any = clients
    return await try_outside(cluster, errands, Outside("enter it", given))


def test_way_in_is_what_the_overlay_adds() -> None:
    way = way_in(built("prod-outside"))
    assert way.services == BROKERS
    assert {name: way.address_of(name) for name in BROKERS} == ADDRESSES
    assert [each["kind"] for each in way.documents].count("NetworkPolicy") == 1
    assert len(way.documents) == 4


@pytest.mark.parametrize("is_ours", [True, False], ids=["given by the test", "given by the cluster"])
async def test_every_broker_is_reached_by_the_address_that_it_advertises(
    is_ours: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = Cluster(*([] if is_ours else BALANCERS))
    clients = Clients(monkeypatch)
    told = await tried(cluster, clients, *(BALANCERS if is_ours else []))
    assert "300 records written from outside to 6 partitions of 3 leaders" in told
    assert cluster.done == ["names", "services", "rolled quorate-broker"], "names before brokers have them"
    assert cluster.advertised == "QUORATE_ADVERTISED_ADDRESS=$(POD_NAME).quorate.example.com:9092"
    assert clients.written == list("012345")
    lines = [f"{ip} {name}.quorate.example.com" for ip, name in zip(BALANCERS, BROKERS, strict=True)]
    assert clients.hosts.splitlines() == (["127.0.0.1 localhost", *lines] if is_ours else [])


async def test_without_the_rule_brokers_are_left_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(*BALANCERS)
    cluster.names.clear()
    with pytest.raises(CannotTest, match=r"lead to nothing, and the pods are .*lacks the rule"):
        await tried(cluster, Clients(monkeypatch))
    assert (cluster.done, cluster.advertised) == (["names"], "inside")


async def test_broker_without_a_service_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(*BALANCERS)
    cluster.brokers.append("quorate-broker-4")
    with pytest.raises(CannotTest, match="there are services for"):
        await tried(cluster, Clients(monkeypatch))


async def test_service_to_which_nobody_gives_an_address_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outside, "_ADDRESS_TIMEOUT_S", 0.0)
    with pytest.raises(CannotTest, match="where the cluster has none, give --load-balancers"):
        await tried(Cluster(*BALANCERS[:2]), Clients(monkeypatch))
    with pytest.raises(CannotTest, match="3 services take so many"):
        await tried(Cluster(), Clients(monkeypatch), *BALANCERS[:2])


async def test_address_that_leads_nowhere_yet_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outside, "_POLL_S", 0.0)
    assert "300 records" in await tried(Cluster(*BALANCERS), Clients(monkeypatch, unanswered=3))
    monkeypatch.setattr(outside, "_ADDRESS_TIMEOUT_S", 0.0)
    with pytest.raises(CannotTest, match="cannot connect"):
        await tried(Cluster(*BALANCERS), Clients(monkeypatch, unanswered=1_000_000))


async def test_other_addresses_and_lost_records_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    clients = Clients(monkeypatch)
    clients.told[BROKERS[0]] = "quorate-broker-1.quorate-broker.quorate.svc.cluster.local:9092"
    with pytest.raises(CannotTest, match="outside, brokers are told of at"):
        await tried(Cluster(*BALANCERS), clients)
    with pytest.raises(CannotTest, match="outside, 299 records are read, of 300 written"):
        await tried(Cluster(*BALANCERS), Clients(monkeypatch, lost=1))


def test_command_of_the_page_is_understood() -> None:
    text = (DEPLOY / "k8s" / "test" / "README.md").read_text()
    [example] = [each for each in text.split("```")[1::2] if "--outside" in each]
    [arguments] = shlex.split(example.replace("\\\n", ""))[2:]
    options = program.parse(shlex.split(arguments.partition("=")[2]))
    assert options.outside.startswith("nsenter --net=")
    assert len(options.load_balancers) == len(BROKERS)
