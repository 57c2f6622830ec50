"""The schemas that manifests are checked against, made from the API's own description."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from tools import check_manifests, make_manifest_schemas

API: dict[str, Any] = {
    "v1.Pod": {
        "type": "object",
        "properties": {"spec": {"$ref": "#/definitions/v1.Spec"}, "kind": {"type": "string"}},
        "x-kubernetes-group-version-kind": [{"group": "", "version": "v1", "kind": "Pod"}],
    },
    "v1.Spec": {
        "type": "object",
        "required": ["port"],
        "properties": {"port": {"type": "string", "format": "int-or-string"}},
    },
}


def test_each_kind_gets_a_file_that_kubeconform_finds() -> None:
    assert make_manifest_schemas.file_name("apps", "v1", "StatefulSet") == "statefulset-apps-v1.json"
    assert make_manifest_schemas.file_name("", "v1", "Pod") == "pod-v1.json"
    assert (
        make_manifest_schemas.file_name("monitoring.coreos.com", "v1", "ServiceMonitor")
        == "servicemonitor-monitoring-v1.json"
    )


def test_unknown_fields_are_refused_and_references_lead_to_one_file() -> None:
    schemas = make_manifest_schemas.of_api(API)
    pod = schemas["pod-v1.json"]
    assert pod["additionalProperties"] is False
    assert pod["required"] == ["apiVersion", "kind"]
    assert pod["properties"]["apiVersion"] == {"enum": ["v1"]}
    assert pod["properties"]["spec"] == {"$ref": "_definitions.json#/definitions/v1.Spec"}
    spec = schemas["_definitions.json"]["definitions"]["v1.Spec"]
    assert spec["properties"]["port"] == {"type": ["string", "integer"]}


def test_every_kind_of_the_operator_that_an_overlay_has_is_described() -> None:
    assert {Path(name).stem.partition("_")[2] for name in make_manifest_schemas.CUSTOM} == {
        "servicemonitors",
        "prometheusrules",
    }


def test_custom_resource_is_strict_below_its_metadata() -> None:
    schema = {
        "type": "object",
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": {"type": "object", "properties": {"port": {"x-kubernetes-int-or-string": True}}},
        },
    }
    crd = {
        "spec": {
            "group": "g.example",
            "names": {"kind": "Thing"},
            "versions": [{"name": "v1", "schema": {"openAPIV3Schema": schema}}],
        }
    }
    made = make_manifest_schemas.of_crd(crd)["thing-g-v1.json"]
    assert made["properties"]["spec"]["additionalProperties"] is False
    assert made["properties"]["spec"]["properties"]["port"]["type"] == ["string", "integer"]
    assert made["properties"]["metadata"] == {"type": "object"}


def test_directories_of_modules_are_read_from_what_go_says() -> None:
    said = '{"Path": "a", "Dir": "/x/a"}\n{"Path": "b", "Dir": "/x/b"}\n'
    assert make_manifest_schemas.source_directories(said) == {"a": Path("/x/a"), "b": Path("/x/b")}


def test_without_the_tools_the_check_says_that_it_was_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(check_manifests, "KUSTOMIZE", tmp_path / "kustomize")
    assert check_manifests.main() == check_manifests.SKIPPED
    assert "skipped: no kustomize" in capsys.readouterr().out


def test_misspelt_field_and_a_patch_that_hits_nothing_are_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if not all(
        path.exists()
        for path in (check_manifests.KUSTOMIZE, check_manifests.KUBECONFORM, check_manifests.SCHEMAS)
    ):
        pytest.skip("kustomize, kubeconform or the schemas are missing: `make check` makes them with Go")
    copy = tmp_path / "k8s"
    shutil.copytree(check_manifests.OVERLAYS.parent, copy)
    assert check_manifests.check(copy / "overlays" / "dev")
    service = copy / "base" / "service.yaml"
    service.write_text(service.read_text().replace("publishNotReadyAddresses", "publishNotReadyAdresses"))
    assert not check_manifests.check(copy / "overlays" / "dev")
    assert "publishNotReadyAdresses" in capsys.readouterr().out
    (copy / "overlays" / "dev" / "statefulset.yaml").write_text("kind: StatefulSet\n")
    assert not check_manifests.check(copy / "overlays" / "dev")


def test_every_overlay_is_checked() -> None:
    assert [path.name for path in check_manifests.overlays()] == [
        "dev",
        "one-machine",
        "prod",
        "prod-outside",
    ]
