"""Puts a cluster there: an overlay, with the image that is tested, and volumes."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from deploy.k8s.test.kubernetes import NAMESPACE, Kubernetes
from deploy.test.commands import CannotTest, say

__all__ = ["DEV", "ONE_MACHINE", "Overlay", "Volumes", "check_room", "install", "uninstall"]

_OVERLAYS: Final = Path(__file__).resolve().parents[1] / "overlays"
_CLASS: Final = "quorate-k8s-test"
#: of the user in the image; a directory of the machine does not follow a pod's fsGroup
_OWNER: Final = 10001
#: no overlay that is tested asks for more; nobody measures it
_CAPACITY: Final = "10Gi"
_DELETE_TIMEOUT_S: Final = 300.0


@dataclass(frozen=True, slots=True)
class Overlay:
    name: str
    namespace: str
    #: of its pods
    claims: tuple[str, ...]
    #: that are in no namespace, and so do not go with it
    cluster_roles: tuple[str, ...] = ()


DEV: Final = Overlay("dev", "quorate-dev", ("data-quorate-1",))
ONE_MACHINE: Final = Overlay(
    "one-machine",
    NAMESPACE,
    (
        # one broker more than there are at first
        *(f"data-quorate-broker-{number}" for number in range(1, 5)),
        *(f"data-quorate-controller-{number}" for number in range(101, 104)),
    ),
    cluster_roles=("quorate-rack",),
)


class Volumes:
    """Directories of this machine, for a cluster of one machine that provides no volumes by itself."""

    def __init__(self, directory: str) -> None:
        self._directory = os.path.abspath(directory)

    def make(self, overlay: Overlay) -> None:
        for claim in overlay.claims:
            path = self._path(overlay, claim)
            try:
                os.makedirs(path)
                os.chown(path, _OWNER, _OWNER)
            except OSError as error:
                raise CannotTest(
                    f"{path} cannot be made: {error}; --host-volumes takes a directory of this machine "
                    "that is empty, and root"
                ) from error

    def remove(self, overlay: Overlay) -> None:
        shutil.rmtree(f"{self._directory}/{overlay.name}", ignore_errors=True)

    def documents(self, overlay: Overlay) -> list[dict[str, Any]]:
        return [
            {
                "apiVersion": "v1",
                "kind": "PersistentVolume",
                "metadata": {"name": f"{_CLASS}-{claim}", "labels": _labels(overlay)},
                "spec": {
                    "capacity": {"storage": _CAPACITY},
                    "accessModes": ["ReadWriteOnce"],
                    "persistentVolumeReclaimPolicy": "Retain",
                    "storageClassName": _CLASS,
                    "claimRef": {"namespace": overlay.namespace, "name": claim},
                    "hostPath": {"path": self._path(overlay, claim), "type": "Directory"},
                },
            }
            for claim in overlay.claims
        ]

    def _path(self, overlay: Overlay, claim: str) -> str:
        return f"{self._directory}/{overlay.name}/{claim}"


def _labels(overlay: Overlay) -> dict[str, str]:
    return {"app.kubernetes.io/part-of": f"{_CLASS}-{overlay.name}"}


async def check_room(kubernetes: Kubernetes, volumes: Volumes | None) -> None:
    """Nothing that is there already is touched."""
    try:
        await kubernetes.call("version", "--output", "json")
    except CannotTest as error:
        raise CannotTest(
            f"no Kubernetes answers: point kubectl to one, or name it with --kubectl\n{error}"
        ) from error
    for overlay in (ONE_MACHINE, DEV):
        name = overlay.namespace
        found = await kubernetes.call("get", "namespace", name, "--ignore-not-found", "--output", "name")
        if found.strip():
            raise CannotTest(f"there is a namespace {name} already: the test makes one, and deletes it")
    if volumes is None and "(default)" not in await kubernetes.call("get", "storageclass"):
        raise CannotTest(
            "no default storage class provides volumes; on a cluster of this one machine, --host-volumes "
            "DIRECTORY makes them of directories"
        )


async def install(kubernetes: Kubernetes, overlay: Overlay, image: str, volumes: Volumes | None) -> None:
    built = await kubernetes.call("kustomize", str(_OVERLAYS / overlay.name))
    documents = [
        adapted(each, image, has_host_volumes=volumes is not None) for each in yaml.safe_load_all(built)
    ]
    if volumes is not None:
        volumes.make(overlay)
        documents += volumes.documents(overlay)
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


async def uninstall(kubernetes: Kubernetes, overlay: Overlay, volumes: Volumes | None) -> None:
    """Whatever there is of it."""
    say("clean", f"deleting the namespace {overlay.namespace}, with its claims")
    for name in overlay.cluster_roles:
        await kubernetes.call(
            "delete", "clusterrolebinding,clusterrole", name, "--ignore-not-found", is_checked=False
        )
    # Nobody is left to hand over to; pods that go with their set have its grace, and wait for their hooks.
    inside = ("--namespace", overlay.namespace, "delete")
    await kubernetes.call(*inside, "statefulset", "--all", "--cascade=orphan", is_checked=False)
    await kubernetes.call(*inside, "pod", "--all", "--grace-period=1", is_checked=False)
    await kubernetes.call(
        *("delete", "namespace", overlay.namespace, "--ignore-not-found"),
        timeout_s=_DELETE_TIMEOUT_S,
        is_checked=False,
    )
    if volumes is not None:
        [(key, value)] = _labels(overlay).items()
        await kubernetes.call("delete", "persistentvolume", "--selector", f"{key}={value}", is_checked=False)
        volumes.remove(overlay)
