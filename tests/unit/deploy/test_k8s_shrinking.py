"""The step `shrink` where there is no Kubernetes: the three steps of the page, in their order."""

from __future__ import annotations

import json
from typing import Any

import pytest

from deploy.k8s.test import steps
from deploy.k8s.test.images import Images
from deploy.k8s.test.kubernetes import Kubernetes, Pod
from deploy.test.commands import CannotTest
from tests.unit.deploy.deploy_files import DEPLOY
from tests.unit.deploy.fake_kubernetes import pod


class Cluster(Kubernetes):
    """Four brokers, of which the last may hold replicas yet; it answers as `quorate` would, too."""

    def __init__(self, *, moving: int = 0) -> None:
        super().__init__("no kubectl")
        self.replicas = 4
        self.known = {1, 2, 3, 4}
        self.done: list[str] = []
        self._moving = moving

    async def pods(self, *sets: str) -> list[Pod]:
        return [pod(f"quorate-broker-{number}", str(number)) for number in range(1, self.replicas + 1)]

    async def call(self, *arguments: str, timeout_s: float = 120.0, is_checked: bool = True) -> str:
        _, _, verb, name, replicas = arguments
        assert (verb, name) == ("scale", "statefulset/quorate-broker")
        self.replicas = int(replicas.partition("=")[2])
        self.done.append("scale")
        return ""

    async def quorate(self, *arguments: str, is_checked: bool = True) -> str:
        match arguments:
            case ("broker", "decommission", broker_id, "--output", "json"):
                assert not is_checked, "its status is 0 only at the very end"
                return json.dumps({"outcome": self._decommission(int(broker_id))})
            case ("cluster", "health"):
                assert is_checked
                if self.known != set(range(1, self.replicas + 1)):
                    raise CannotTest("exit status 1: broker 4 is fenced")
                self.done.append("health")
                return "healthy"
            case _:
                raise AssertionError(arguments)

    def _decommission(self, broker_id: int) -> str:
        if self._moving:
            self._moving -= 1
            return "moving"
        if broker_id <= self.replicas:
            self.done.append("empty")
            return "empty"
        self.known.discard(broker_id)
        self.done.append("forgotten")
        return "forgotten"


def scene_of(cluster: Cluster, monkeypatch: pytest.MonkeyPatch, *, brokers: int) -> steps.Scene:
    async def settled(_: steps.Scene) -> None: ...

    monkeypatch.setattr(steps.Scene, "settled", settled)
    monkeypatch.setattr(steps, "_LOOK_S", 0.0)
    sent_out: Any = cluster
    return steps.Scene(cluster, sent_out, None, Images("q:1", "q:2"), None, failover_s=10.0, brokers=brokers)


@pytest.mark.parametrize("moving", [0, 2])
async def test_broker_is_emptied_stopped_and_forgotten_and_nobody_is_missed(
    monkeypatch: pytest.MonkeyPatch, moving: int
) -> None:
    cluster = Cluster(moving=moving)
    scene = scene_of(cluster, monkeypatch, brokers=4)
    await steps.take_a_broker_away(scene)
    assert cluster.done == ["empty", "scale", "forgotten", "health"]
    assert scene.counts["quorate-broker"] == 3


async def test_where_there_is_no_broker_too_many_none_is_taken_away(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster()
    with pytest.raises(CannotTest, match="`scale` adds one"):
        await steps.take_a_broker_away(scene_of(cluster, monkeypatch, brokers=3))
    assert cluster.done == []


def test_page_says_the_step_after_the_pod_is_gone() -> None:
    [section] = [
        part for part in (DEPLOY / "k8s" / "README.md").read_text().split("\n## ") if "More brokers" in part
    ]
    first, lower, again = (
        section.index(text)
        for text in ("1. `quorate broker decommission", "2. Lower", "3. `quorate broker decommission")
    )
    assert first < lower < again
