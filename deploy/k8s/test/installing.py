"""Puts the cluster there: the overlay for one machine, with the image that is tested, and volumes."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any, Final

import yaml

from deploy.k8s.test.kubernetes import NAMESPACE, Kubernetes
from deploy.test.commands import CannotTest, say

__all__ = ["Volumes", "check_room", "install", "uninstall"]

_OVERLAY: Final = Path(__file__).resolve().parents[1] / "overlays" / "one-machine"
_CLASS: Final = "quorate-k8s-test"
#: of the user in the image; a directory of the machine does not follow a pod's fsGroup
_OWNER: Final = 10001
#: one broker more than there are at first
_CLAIMS: Final = (
    *(f"data-quorate-broker-{number}" for number in range(1, 5)),
    *(f"data-quorate-controller-{number}" for number in range(101, 104)),
)
_DELETE_TIMEOUT_S: Final = 300.0


class Volumes:
    """Directories of this machine, for a cluster of one machine that provides no volumes by itself."""

    def __init__(self, directory: str) -> None:
        self._directory = os.path.abspath(directory)

    def make(self) -> None:
        for claim in _CLAIMS:
            path = f"{self._directory}/{claim}"
            try:
                os.makedirs(path)
                os.chown(path, _OWNER, _OWNER)
            except OSError as error:
                raise CannotTest(
                    f"{path} cannot be made: {error}; --host-volumes takes a directory of this machine "
                    "that is empty, and root"
                ) from error

    def remove(self) -> None:
        for claim in _CLAIMS:
            shutil.rmtree(f"{self._directory}/{claim}", ignore_errors=True)

    def documents(self) -> list[dict[str, Any]]:
        return [
            {
                "apiVersion": "v1",
                "kind": "PersistentVolume",
                "metadata": {"name": f"{_CLASS}-{claim}", "labels": {"app.kubernetes.io/part-of": _CLASS}},
                "spec": {
                    "capacity": {"storage": "1Gi"},
                    "accessModes": ["ReadWriteOnce"],
                    "persistentVolumeReclaimPolicy": "Retain",
                    "storageClassName": _CLASS,
                    "claimRef": {"namespace": NAMESPACE, "name": claim},
                    "hostPath": {"path": f"{self._directory}/{claim}", "type": "Directory"},
                },
            }
            for claim in _CLAIMS
        ]


async def check_room(kubernetes: Kubernetes, volumes: Volumes | None) -> None:
    """Nothing that is there already is touched."""
    try:
        await kubernetes.call("version", "--output", "json")
    except CannotTest as error:
        raise CannotTest(
            f"no Kubernetes answers: point kubectl to one, or name it with --kubectl\n{error}"
        ) from error
    found = await kubernetes.call("get", "namespace", NAMESPACE, "--ignore-not-found", "--output", "name")
    if found.strip():
        raise CannotTest(f"there is a namespace {NAMESPACE} already: the test makes one, and deletes it")
    if volumes is None and "(default)" not in await kubernetes.call("get", "storageclass"):
        raise CannotTest(
            "no default storage class provides volumes; on a cluster of this one machine, --host-volumes "
            "DIRECTORY makes them of directories"
        )


async def install(kubernetes: Kubernetes, image: str, volumes: Volumes | None) -> None:
    built = await kubernetes.call("kustomize", str(_OVERLAY))
    documents = [
        adapted(each, image, has_host_volumes=volumes is not None) for each in yaml.safe_load_all(built)
    ]
    if volumes is not None:
        volumes.make()
        documents += volumes.documents()
    # The namespace first: the others are in it.
    documents.sort(key=lambda each: each["kind"] != "Namespace")
    await kubernetes.apply(yaml.safe_dump_all(documents))


def adapted(document: dict[str, Any], image: str, *, has_host_volumes: bool) -> dict[str, Any]:
    """With the image that is tested, and the class of the volumes that were made for it."""
    if document["kind"] != "StatefulSet":
        return document
    pod = document["spec"]["template"]["spec"]
    for container in [*pod["containers"], *pod.get("initContainers", [])]:
        container["image"] = image
    if has_host_volumes:
        for claim in document["spec"]["volumeClaimTemplates"]:
            claim["spec"]["storageClassName"] = _CLASS
    return document


async def uninstall(kubernetes: Kubernetes, volumes: Volumes | None) -> None:
    """Whatever there is of it."""
    say("clean", "deleting the namespace, with its claims")
    for kind in ("clusterrolebinding", "clusterrole"):
        await kubernetes.call("delete", kind, "quorate-rack", "--ignore-not-found", is_checked=False)
    # Without the wait of their hooks: nobody is left to hand over to.
    await kubernetes.call(
        *("--namespace", NAMESPACE, "delete", "statefulset,pod", "--all", "--grace-period=1", "--wait=false"),
        is_checked=False,
    )
    await kubernetes.call(
        "delete", "namespace", NAMESPACE, "--ignore-not-found", timeout_s=_DELETE_TIMEOUT_S, is_checked=False
    )
    if volumes is not None:
        selector = f"app.kubernetes.io/part-of={_CLASS}"
        await kubernetes.call("delete", "persistentvolume", "--selector", selector, is_checked=False)
        volumes.remove()
