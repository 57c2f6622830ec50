"""The manifests of deploy/k8s as they are applied, and the environment that their pods would have."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import Any

import pytest
import yaml

from tools import check_manifests

__all__ = ["StatefulSet", "built", "of_kind", "stateful_sets"]


@cache
def built(overlay: str) -> list[dict[str, Any]]:
    if not check_manifests.KUSTOMIZE.exists():
        pytest.skip("kustomize is missing: `make check` builds it where Go is installed")
    answer = check_manifests.build(check_manifests.OVERLAYS / overlay)
    assert answer.returncode == 0, answer.stderr
    return list(yaml.safe_load_all(answer.stdout))


def of_kind(overlay: str, kind: str) -> dict[str, dict[str, Any]]:
    """By name."""
    return {each["metadata"]["name"]: each for each in built(overlay) if each["kind"] == kind}


def stateful_sets(overlay: str) -> list[StatefulSet]:
    return [StatefulSet(overlay, each) for each in of_kind(overlay, "StatefulSet").values()]


@dataclass(frozen=True)
class StatefulSet:
    overlay: str
    document: dict[str, Any]

    @property
    def name(self) -> str:
        return str(self.document["metadata"]["name"])

    @property
    def spec(self) -> dict[str, Any]:
        spec: dict[str, Any] = self.document["spec"]
        return spec

    @property
    def pod(self) -> dict[str, Any]:
        pod: dict[str, Any] = self.spec["template"]["spec"]
        return pod

    @property
    def container(self) -> dict[str, Any]:
        [container] = self.pod["containers"]
        assert isinstance(container, dict)
        return container

    @property
    def labels(self) -> dict[str, str]:
        labels: dict[str, str] = self.spec["template"]["metadata"]["labels"]
        return labels

    @property
    def ordinals(self) -> range:
        start = self.spec["ordinals"]["start"]
        return range(start, start + self.spec["replicas"])

    def environment(self, ordinal: int) -> dict[str, str]:
        """As a kubelet makes it: a variable can name only those that stand before it in ``env``."""
        result: dict[str, str] = {"QUORATE_DATA_DIR": "/var/lib/quorate"}  # the image's own
        for source in self.container["envFrom"]:
            if "configMapRef" in source:
                result.update(of_kind(self.overlay, "ConfigMap")[source["configMapRef"]["name"]]["data"])
        fields = {
            "metadata.name": f"{self.name}-{ordinal}",
            "metadata.namespace": self.document["metadata"]["namespace"],
            "metadata.labels['apps.kubernetes.io/pod-index']": str(ordinal),
        }
        before: dict[str, str] = {}
        for variable in self.container["env"]:
            if "value" in variable:
                value = _expanded(variable["value"], before)
            else:
                value = fields[variable["valueFrom"]["fieldRef"]["fieldPath"]]
            before[variable["name"]] = value
        return {**result, **before}


def _expanded(text: str, known: dict[str, str]) -> str:
    return re.sub(r"\$\((\w+)\)", lambda match: known.get(match[1], match[0]), text)
