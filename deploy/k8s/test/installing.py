"""Puts a cluster there: an overlay, with the image that is tested, and volumes.

The Kubernetes may be somebody's, with a cluster of Quorate in it. So nothing is begun where a name is taken,
what is in no namespace is created and never changed, and it carries a label by which it is deleted again.
"""

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
#: a label of all that is in no namespace, and so does not go with one; its value is the overlay's name
_MADE_FOR: Final = "quorate-k8s-test"


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
        self._made: set[str] = set()

    def make(self, overlay: Overlay) -> None:
        directory = f"{self._directory}/{overlay.name}"
        try:
            os.makedirs(directory)
            self._made.add(directory)
            for claim in overlay.claims:
                path = self._path(overlay, claim)
                os.mkdir(path)
                os.chown(path, _OWNER, _OWNER)
        except OSError as error:
            raise CannotTest(
                f"{directory} cannot be made: {error}; --host-volumes takes a directory of this machine "
                "that is empty, and root"
            ) from error

    def remove(self, overlay: Overlay) -> None:
        directory = f"{self._directory}/{overlay.name}"
        if directory in self._made:
            shutil.rmtree(directory, ignore_errors=True)

    def documents(self, overlay: Overlay) -> list[dict[str, Any]]:
        return [
            {
                "apiVersion": "v1",
                "kind": "PersistentVolume",
                "metadata": {"name": f"{_CLASS}-{claim}"},
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


async def check_room(kubernetes: Kubernetes, volumes: Volumes | None) -> None:
    """Nothing that is there already is touched."""
    try:
        await kubernetes.call("version", "--output", "json")
    except CannotTest as error:
        raise CannotTest(
            f"no Kubernetes answers: point kubectl to one, or name it with --kubectl\n{error}"
        ) from error
    for overlay in (ONE_MACHINE, DEV):
        await _check_names(kubernetes, overlay)
    if volumes is None and "(default)" not in await kubernetes.call("get", "storageclass"):
        raise CannotTest(
            "no default storage class provides volumes; on a cluster of this one machine, --host-volumes "
            "DIRECTORY makes them of directories"
        )


async def _check_names(kubernetes: Kubernetes, overlay: Overlay) -> None:
    names = [("namespace", overlay.namespace)]
    names += [
        (kind, name) for name in overlay.cluster_roles for kind in ("clusterrole", "clusterrolebinding")
    ]
    for kind, name in names:
        found = await kubernetes.call("get", kind, name, "--ignore-not-found", "--output", "name")
        if found.strip():
            raise CannotTest(
                f"there is a {kind} {name} already, and the test makes one of that name and deletes it: "
                "of a cluster that is in use, or of a test with --keep? Take another Kubernetes, or delete it"
            )


async def install(kubernetes: Kubernetes, overlay: Overlay, image: str, volumes: Volumes | None) -> None:
    built = await kubernetes.call("kustomize", str(_OVERLAYS / overlay.name))
    documents = [
        adapted(each, image, has_host_volumes=volumes is not None) for each in yaml.safe_load_all(built)
    ]
    if volumes is not None:
        volumes.make(overlay)
        documents += volumes.documents(overlay)
    for each in documents:
        if "namespace" not in each["metadata"]:
            each["metadata"].setdefault("labels", {})[_MADE_FOR] = overlay.name
    # The namespace first: the others are in it.
    documents.sort(key=lambda each: each["kind"] != "Namespace")
    await kubernetes.create(yaml.safe_dump_all(documents))


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
    """Whatever was made of it, and nothing else."""
    made = ("--selector", f"{_MADE_FOR}={overlay.name}")
    await kubernetes.call("delete", "clusterrolebinding,clusterrole", *made, is_checked=False)
    if (await kubernetes.call("get", "namespace", *made, "--output", "name", is_checked=False)).strip():
        await _delete_namespace(kubernetes, overlay.namespace)
    if volumes is not None:
        await kubernetes.call("delete", "persistentvolume", *made, is_checked=False)
        volumes.remove(overlay)


async def _delete_namespace(kubernetes: Kubernetes, name: str) -> None:
    say("clean", f"deleting the namespace {name}, with its claims")
    # Nobody is left to hand over to; pods that go with their set have its grace, and wait for their hooks.
    inside = ("--namespace", name, "delete")
    await kubernetes.call(*inside, "statefulset", "--all", "--cascade=orphan", is_checked=False)
    await kubernetes.call(*inside, "pod", "--all", "--grace-period=1", is_checked=False)
    await kubernetes.call("delete", "namespace", name, timeout_s=_DELETE_TIMEOUT_S, is_checked=False)
