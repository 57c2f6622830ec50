"""A cluster of Kubernetes, by way of kubectl: whatever it points to."""

from __future__ import annotations

import asyncio
import json
import shlex
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

from deploy.test.commands import CannotTest, run

__all__ = ["NAMESPACE", "SETS", "ZONE", "Kubernetes", "Pod"]

NAMESPACE: Final = "quorate"
SETS: Final = ("quorate-controller", "quorate-broker")
#: the label of a machine that says where it stands
ZONE: Final = "topology.kubernetes.io/zone"
_POLL_S: Final = 0.5
#: The image's Python runs the node and nothing else; process 1 is tini, which ends when its child does.
_KILL: Final = (
    "for process in /proc/[0-9]*; do case $(tr '\\0' ' ' <$process/cmdline) in "
    "/opt/quorate/bin/python*) kill -9 ${process#/proc/};; esac; done"
)
#: a pod that starts on a busy machine, with its preStop hook before
_READY_TIMEOUT_S: Final = 420.0


class Pod:
    """As it was when it was asked for."""

    def __init__(self, document: dict[str, Any]) -> None:
        self._document = document
        self.name: str = document["metadata"]["name"]
        self.uid: str = document["metadata"]["uid"]
        self.ip: str = document["status"].get("podIP", "")
        #: the machine that it runs on
        self.machine: str = document["spec"].get("nodeName", "")
        self.is_going = "deletionTimestamp" in document["metadata"]

    @property
    def is_ready(self) -> bool:
        conditions = self._document["status"].get("conditions", [])
        return not self.is_going and any(
            each["type"] == "Ready" and each["status"] == "True" for each in conditions
        )

    @property
    def restarts(self) -> int:
        return sum(each["restartCount"] for each in self._document["status"].get("containerStatuses", []))

    @property
    def images(self) -> set[str]:
        return {each["image"] for each in self._document["spec"]["containers"]}


class Kubernetes:
    def __init__(self, kubectl: str) -> None:
        """``kubectl``: the command with its options; a namespace of the network may be entered first."""
        self._kubectl = tuple(shlex.split(kubectl))

    def command(self, *arguments: str) -> tuple[str, ...]:
        return (*self._kubectl, *arguments)

    async def call(self, *arguments: str, timeout_s: float = 120.0, is_checked: bool = True) -> str:
        """Its standard output alone: warnings of the API are no part of a document."""
        return await run(
            *self.command(*arguments), timeout_s=timeout_s, is_checked=is_checked, has_errors=False
        )

    async def inside(self, *arguments: str, timeout_s: float = 120.0, is_checked: bool = True) -> str:
        """In the namespace of the test."""
        return await self.call(
            "--namespace", NAMESPACE, *arguments, timeout_s=timeout_s, is_checked=is_checked
        )

    async def create(self, documents: str) -> None:
        """None of them may be there: what is somebody else's is not changed."""
        await run(*self.command("create", "--filename", "-"), text=documents)

    # -- pods

    async def pods(self, *sets: str) -> list[Pod]:
        """Of these sets, by name; of all, if none is named."""
        told = await self.inside(
            "get", "pods", "--selector", "app.kubernetes.io/name=quorate", "--output", "json"
        )
        found = sorted((Pod(each) for each in json.loads(told)["items"]), key=lambda pod: pod.name)
        wanted = sets or SETS
        return [pod for pod in found if pod.name.rpartition("-")[0] in wanted]

    async def pod(self, name: str) -> Pod:
        return Pod(json.loads(await self.inside("get", "pod", name, "--output", "json")))

    async def zone(self, machine: str) -> str | None:
        labels = json.loads(await self.call("get", "node", machine, "--output", "json"))["metadata"]["labels"]
        zone: str | None = labels.get(ZONE)
        return zone

    async def ready(self, counts: dict[str, int], *, but: Sequence[str] = ()) -> None:
        """Until each set has so many ready pods; ``but``: pods by uid that do not count."""
        await self.until(
            lambda pods: all(_ready_count(pods, name, but) == count for name, count in counts.items()),
            f"pods are not ready: {counts}",
        )

    async def until(self, is_so: Callable[[list[Pod]], bool], otherwise: str) -> None:
        deadline = time.monotonic() + _READY_TIMEOUT_S
        while not is_so(found := await self.pods()):
            if time.monotonic() > deadline:
                states = ", ".join(f"{pod.name} {'ready' if pod.is_ready else 'not ready'}" for pod in found)
                raise CannotTest(f"{otherwise} after {_READY_TIMEOUT_S:g} s; {states}")
            await asyncio.sleep(_POLL_S)

    async def delete_at_once(self, *names: str) -> None:
        """No grace, no hook, nobody is asked."""
        await self.inside("delete", "pod", *names, "--grace-period=0", "--force", "--wait=false")

    async def kill_process(self, name: str) -> None:
        """Of the node, with no last word. The container ends with it, and so does the command in there."""
        await self.call(
            *("--namespace", NAMESPACE, "exec", name, "--container", "quorate", "--", "sh", "-c", _KILL),
            is_checked=False,
        )

    async def evict(self, name: str) -> str | None:
        """As a drain of its machine does it. None: it goes; else why it may not."""
        eviction = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": name, "namespace": NAMESPACE},
        }
        path = f"/api/v1/namespaces/{NAMESPACE}/pods/{name}/eviction"
        try:
            await run(*self.command("create", "--raw", path, "--filename", "-"), text=json.dumps(eviction))
        except CannotTest as error:
            if "disruption budget" in str(error):
                return str(error)
            raise
        return None

    async def rolled_out(self, name: str) -> None:
        await self.inside(
            *("rollout", "status", f"statefulset/{name}", f"--timeout={_READY_TIMEOUT_S * 3:g}s"),
            timeout_s=_READY_TIMEOUT_S * 3 + 10,
        )


def _ready_count(pods: Sequence[Pod], name: str, but: Sequence[str]) -> int:
    return sum(pod.is_ready and pod.uid not in but for pod in pods if pod.name.rpartition("-")[0] == name)
