"""The other end of in_pod.py: clients in a pod of their own, told by lines of JSON."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import yaml

from deploy.k8s.test.kubernetes import NAMESPACE, Kubernetes
from deploy.test.commands import CannotTest

__all__ = ["LOAD_POD", "Errands", "errands"]

LOAD_POD: Final = "quorate-load"
_BOOTSTRAP: Final = f"quorate.{NAMESPACE}.svc:9092"
_SCRIPT: Final = Path(__file__).with_name("in_pod.py")
#: a proof reads everything back, and a partition may take a minute before it is given up
_ANSWER_TIMEOUT_S: Final = 300.0
_LINE_BYTES_MAX: Final = 1 << 20


@asynccontextmanager
async def errands(kubernetes: Kubernetes, image: str) -> AsyncIterator[Errands]:
    await kubernetes.create(yaml.safe_dump_all([_script_document(), _pod_document(image)]))
    await kubernetes.inside(
        "wait", "--for=condition=Ready", f"pod/{LOAD_POD}", "--timeout=180s", timeout_s=190
    )
    process = await asyncio.create_subprocess_exec(
        *kubernetes.command("--namespace", NAMESPACE, "exec", "--stdin", LOAD_POD, "--"),
        *("python3", "/opt/test/in_pod.py", _BOOTSTRAP),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        limit=_LINE_BYTES_MAX,
    )
    try:
        yield Errands(kubernetes, process)
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


class Errands:
    def __init__(self, kubernetes: Kubernetes, process: asyncio.subprocess.Process) -> None:
        self._kubernetes = kubernetes
        self._process = process

    async def do(self, name: str, **arguments: Any) -> dict[str, Any]:
        """What it answered; a broken promise ends the step."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{json.dumps({'do': name, **arguments})}\n".encode())
        await self._process.stdin.drain()
        try:
            line = await asyncio.wait_for(self._process.stdout.readline(), _ANSWER_TIMEOUT_S)
        except TimeoutError:
            raise CannotTest(
                f"the pod of the clients has not done {name} in {_ANSWER_TIMEOUT_S:g} s"
            ) from None
        if not line:
            raise CannotTest(f"the pod of the clients is gone, or the connection to it, while it did {name}")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise CannotTest(f"{name}: {answer['error']}")
        return answer

    async def quorate(self, *arguments: str, timeout_s: float = 300.0, is_checked: bool = True) -> str:
        """The command line, in the same pod; ``is_checked``: its status has to be 0."""
        return await self._kubernetes.inside(
            *("exec", LOAD_POD, "--", "quorate", "--bootstrap", _BOOTSTRAP),
            *arguments,
            timeout_s=timeout_s,
            is_checked=is_checked,
        )


def _script_document() -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": LOAD_POD, "namespace": NAMESPACE},
        "data": {_SCRIPT.name: _SCRIPT.read_text(encoding="utf-8")},
    }


def _pod_document(image: str) -> dict[str, Any]:
    """In a namespace that enforces the restricted profile; clients carry the label that lets them in."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": LOAD_POD, "namespace": NAMESPACE, "labels": {"quorate-client": "true"}},
        "spec": {
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "terminationGracePeriodSeconds": 1,
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": 10001,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [
                {
                    "name": "clients",
                    "image": image,
                    "imagePullPolicy": "IfNotPresent",
                    "command": ["tini", "--", "sleep", "infinity"],
                    "securityContext": {
                        "allowPrivilegeEscalation": False,
                        "readOnlyRootFilesystem": True,
                        "capabilities": {"drop": ["ALL"]},
                    },
                    "volumeMounts": [{"name": "script", "mountPath": "/opt/test", "readOnly": True}],
                }
            ],
            "volumes": [{"name": "script", "configMap": {"name": LOAD_POD}}],
        },
    }
