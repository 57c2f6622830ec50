"""The step `racks` where there is no Kubernetes: it compares something, and leaves machines as they were."""

from __future__ import annotations

import json
import runpy
from typing import Any

import pytest

from deploy.k8s.test.kubernetes import ZONE, Kubernetes
from deploy.k8s.test.zones import a_zone, try_zones
from deploy.test.commands import CannotTest
from tests.unit.deploy.deploy_files import DEPLOY


class Machines(Kubernetes):
    """``zones``: of machines, by name; broker 1 runs on the first, broker 2 on the second, and so on."""

    def __init__(self, **zones: str | None) -> None:
        super().__init__("no kubectl")
        self.zones = dict(zones)
        self._machines = list(zones)
        #: of brokers: what the label of their machine was when they started
        self.racks = {number: zones[machine] for number, machine in enumerate(self._machines, 1)}
        self.lives = dict.fromkeys(self.racks, 0)
        self.labelled: list[str] = []
        #: brokers of this rack stay in it
        self.is_deaf = False

    async def call(self, *arguments: str, timeout_s: float = 120.0, is_checked: bool = True) -> str:
        match arguments:
            case ("get", "node", machine, *_):
                zone = self.zones[machine]
                return json.dumps({"metadata": {"labels": {} if zone is None else {ZONE: zone}}})
            case ("label", "node", machine, change):
                return self._label(machine, change)
            case ("--namespace", _, "get", "pods", *_):
                return json.dumps({"items": [self._document(number) for number in self.racks]})
            case ("--namespace", _, "get", "pod", name, *_):
                return json.dumps(self._document(int(name.rpartition("-")[2])))
            case ("--namespace", _, "delete", "pod", name):
                number = int(name.rpartition("-")[2])
                self.lives[number] += 1
                if not self.is_deaf:
                    self.racks[number] = self.zones[self._machines[number - 1]]
                return ""
            case _:
                raise AssertionError(arguments)

    def _label(self, machine: str, change: str) -> str:
        assert change.startswith(ZONE)
        self.labelled.append(machine)
        if change == f"{ZONE}-":
            self.zones[machine] = None
        elif self.zones[machine] is not None:
            raise CannotTest("already has a value, and --overwrite is false")
        else:
            self.zones[machine] = change.partition("=")[2]
        return ""

    def _document(self, number: int) -> dict[str, Any]:
        return {
            "metadata": {"name": f"quorate-broker-{number}", "uid": f"{number}.{self.lives[number]}"},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]},
            "spec": {"nodeName": self._machines[number - 1]},
        }


def errands(machines: Machines) -> Any:
    class Errands:
        async def quorate(self, *_: str) -> str:
            return json.dumps(
                {"brokers": [{"id": key, "rack": rack} for key, rack in machines.racks.items()]}
            )

    return Errands()


async def test_machines_without_a_zone_are_given_one_and_lose_it_again() -> None:
    machines = Machines(a=None, b=None)
    told = await try_zones(machines, errands(machines))
    assert told == "zones: none, given one: zones: quorate-k8s-test-1"
    assert machines.zones == {"a": None, "b": None}
    assert machines.racks == {1: None, 2: None}, "and is in none again after a second start"


async def test_zones_that_are_there_are_compared_and_never_changed() -> None:
    machines = Machines(a="north", b="south")
    assert await try_zones(machines, errands(machines)) == "zones: north, south"
    assert machines.labelled == []
    mixed = Machines(a="north", b=None)
    assert "given one: zones: quorate-k8s-test-0" in await try_zones(mixed, errands(mixed))
    assert set(mixed.labelled) == {"b"}
    assert mixed.zones == {"a": "north", "b": None}


async def test_broker_that_does_not_take_the_zone_of_its_machine_fails_and_leaves_no_label() -> None:
    machines = Machines(a=None)
    machines.is_deaf = True
    with pytest.raises(CannotTest, match="their racks are"):
        await try_zones(machines, errands(machines))
    assert machines.zones == {"a": None}


async def test_label_that_somebody_else_sets_meanwhile_stays() -> None:
    machines = Machines(a=None, b="theirs")
    async with a_zone(machines, "a", "quorate-k8s-test-0"):
        machines.zones["a"] = "theirs"
    assert machines.zones["a"] == "theirs"
    with pytest.raises(CannotTest, match="already has a value"):
        async with a_zone(machines, "b", "quorate-k8s-test-0"):
            raise AssertionError
    assert machines.zones["b"] == "theirs"


def test_zone_is_the_label_that_the_init_container_reads() -> None:
    script = runpy.run_path(str(DEPLOY / "k8s" / "components" / "racks" / "rack.py"), run_name="not main")
    assert script["ZONE"] == ZONE
