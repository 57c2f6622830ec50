"""The overlay for a single node, beside the cluster that is tested: it comes up, and keeps what it has."""

from __future__ import annotations

import time
from typing import Final

from deploy.k8s.test.installing import DEV, Volumes, install, uninstall
from deploy.k8s.test.kubernetes import Kubernetes
from deploy.test.commands import CannotTest

__all__ = ["try_dev_overlay"]

_POD: Final = "quorate-1"
_SET: Final = "quorate"
_WAIT_S: Final = 300
_TEXT: Final = "written before its pod was deleted"
_WRITE: Final = (
    f"quorate topic create try --partitions 1 --replication-factor 1 && echo '{_TEXT}' | quorate produce try"
)
_READ: Final = "quorate consume try --exit-at-end"


async def try_dev_overlay(kubernetes: Kubernetes, image: str, volumes: Volumes | None) -> str:
    """What there is to tell. All of it is gone again afterwards."""
    began = time.monotonic()
    try:
        await install(kubernetes, DEV, image, volumes)
        await _rolled_out(kubernetes)
        told = f"the single node is ready after {time.monotonic() - began:.1f} s"
        await _inside(kubernetes, "exec", _POD, "--", "sh", "-c", _WRITE)
        await _inside(kubernetes, "delete", "pod", _POD, f"--timeout={_WAIT_S}s")
        await _rolled_out(kubernetes)
        if _TEXT not in (read := await _inside(kubernetes, "exec", _POD, "--", "sh", "-c", _READ)):
            raise CannotTest(f"the single node has lost what was written to it; it has: {read}")
        return f"{told}, and has its record after its pod was deleted"
    finally:
        await uninstall(kubernetes, DEV, volumes)


async def _rolled_out(kubernetes: Kubernetes) -> None:
    await _inside(kubernetes, "rollout", "status", f"statefulset/{_SET}", f"--timeout={_WAIT_S}s")


async def _inside(kubernetes: Kubernetes, *arguments: str) -> str:
    return await kubernetes.call("--namespace", DEV.namespace, *arguments, timeout_s=_WAIT_S + 10)
