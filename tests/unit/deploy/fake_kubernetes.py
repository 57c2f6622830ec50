"""What kubectl would do to things that are in no namespace, and that somebody else may have as well."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from deploy.k8s.test.kubernetes import Kubernetes, Pod
from deploy.test.commands import CannotTest
from tests.unit.deploy.manifests import built

__all__ = ["FakeKubernetes", "pod"]

Thing = tuple[str, str]


def pod(name: str, uid: str, *, ready: bool = True, going: bool = False, ip: str = "10.0.0.1") -> Pod:
    metadata = {"name": name, "uid": uid, **({"deletionTimestamp": "now"} if going else {})}
    conditions = [{"type": "Ready", "status": str(ready)}]
    return Pod({"metadata": metadata, "status": {"podIP": ip, "conditions": conditions}, "spec": {}})


class FakeKubernetes(Kubernetes):
    """``things``: kind and name of what is there."""

    def __init__(self, *things: Thing) -> None:
        super().__init__("no kubectl")
        self._labels: dict[Thing, dict[str, str]] = {thing: {} for thing in things}
        #: namespaces in which pods and sets were deleted
        self.emptied: set[str] = set()

    @property
    def things(self) -> set[Thing]:
        return set(self._labels)

    async def call(self, *arguments: str, timeout_s: float = 120.0, is_checked: bool = True) -> str:
        match arguments:
            case ("version", *_):
                return "{}"
            case ("kustomize", directory):
                return yaml.safe_dump_all(built(Path(directory).name))
            case ("get", "storageclass"):
                return "standard (default)"
            case ("--namespace", namespace, "delete", *_):
                self.emptied.add(namespace)
                return ""
            case ("get" | "delete" as verb, kinds, *choice):
                chosen = [thing for thing in self._labels if self._is_chosen(thing, kinds.split(","), choice)]
                if verb == "delete":
                    self._labels = {
                        thing: self._labels[thing] for thing in self._labels if thing not in chosen
                    }
                return "\n".join(f"{kind}/{name}" for kind, name in chosen)
            case _:
                raise AssertionError(arguments)

    def _is_chosen(self, thing: Thing, kinds: list[str], choice: list[str]) -> bool:
        kind, name = thing
        match choice:
            case ("--selector", selector, *_):
                key, _, value = selector.partition("=")
                return kind in kinds and self._labels[thing].get(key) == value
            case _:
                return kind in kinds and name == choice[0]

    async def create(self, documents: str) -> None:
        """Those that are there already stay as they are, and the others are made all the same."""
        taken = [
            str(thing)
            for each in yaml.safe_load_all(documents)
            if not self._made(each, thing := _thing(each))
        ]
        if taken:
            raise CannotTest(f"AlreadyExists: {', '.join(taken)}")

    def _made(self, document: dict[str, Any], thing: Thing) -> bool:
        if "namespace" in document["metadata"]:
            return True
        if thing in self._labels:
            return False
        self._labels[thing] = document["metadata"].get("labels", {})
        return True


def _thing(document: dict[str, Any]) -> Thing:
    return document["kind"].lower(), document["metadata"]["name"]
