"""Makes the schemas that kubeconform checks manifests against, without asking any server for them.

    make_manifest_schemas.py MODULES OUT

MODULES is what `go mod download -json` said when it had fetched and verified two modules: k8s.io/kubernetes,
whose openapi document describes every kind of the API, and the Prometheus operator, whose CRDs describe
ServiceMonitor and PrometheusRule.

The schemas are stricter than the API: a field that it does not know is an error, because the API server would
drop it and say nothing. What no schema says (that a name leads to something, that a port is published) is for
tests.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, Final

import yaml

KUBERNETES: Final = "k8s.io/kubernetes"
OPERATOR: Final = "github.com/prometheus-operator/prometheus-operator"
DEFINITIONS: Final = "_definitions.json"
CRDS: Final = "example/prometheus-operator-crd"
CUSTOM: Final = ("monitoring.coreos.com_servicemonitors.yaml", "monitoring.coreos.com_prometheusrules.yaml")


def main() -> int:
    modules, out = map(Path, sys.argv[1:])
    sources = source_directories(modules.read_text())
    swagger = json.loads((sources[KUBERNETES] / "api/openapi-spec/swagger.json").read_text())
    out.mkdir(parents=True, exist_ok=True)
    schemas = of_api(swagger["definitions"])
    for name in CUSTOM:
        schemas |= of_crd(yaml.safe_load((sources[OPERATOR] / CRDS / name).read_text()))
    for name, schema in schemas.items():
        (out / name).write_text(json.dumps(schema))
    print(f"made {len(schemas)} schemas in {out}")
    return 0


def source_directories(downloaded: str) -> dict[str, Path]:
    """By module; Go writes one document after the other."""
    decoder, found, rest = json.JSONDecoder(), {}, downloaded.strip()
    while rest:
        module, end = decoder.raw_decode(rest)
        found[module["Path"]] = Path(module["Dir"])
        rest = rest[end:].lstrip()
    return found


def of_api(definitions: dict[str, Any]) -> dict[str, Any]:
    """By file name: one for each kind and version, and one with all that they refer to."""
    strict = {name: _strict(_rewritten(definition)) for name, definition in definitions.items()}
    for name, definition in strict.items():
        if name.endswith("resource.Quantity"):
            definition["type"] = ["string", "number"]
    schemas: dict[str, Any] = {DEFINITIONS: {"definitions": strict}}
    for name, definition in definitions.items():
        for kind in definition.get("x-kubernetes-group-version-kind", []):
            schemas[file_name(kind["group"], kind["version"], kind["kind"])] = _of_kind(strict[name], **kind)
    return schemas


def of_crd(crd: dict[str, Any]) -> dict[str, Any]:
    spec = crd["spec"]
    return {
        file_name(spec["group"], version["name"], spec["names"]["kind"]): _strict_all(
            version["schema"]["openAPIV3Schema"]
        )
        for version in spec["versions"]
    }


def file_name(group: str, version: str, kind: str) -> str:
    """As kubeconform looks for it."""
    parts = [kind.lower(), *([group.partition(".")[0]] if group else []), version]
    return f"{'-'.join(parts)}.json"


def _of_kind(definition: dict[str, Any], *, group: str, version: str, kind: str) -> dict[str, Any]:
    properties = {
        **definition.get("properties", {}),
        "apiVersion": {"enum": [f"{group}/{version}" if group else version]},
        "kind": {"enum": [kind]},
    }
    required = sorted({*definition.get("required", []), "apiVersion", "kind"})
    return {**definition, "properties": properties, "required": required}


def _rewritten(schema: Any) -> Any:
    """References lead to the file with all definitions, and what is a number or a text may be both."""
    if isinstance(schema, list):
        return [_rewritten(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    if isinstance(schema.get("$ref"), str):
        return {"$ref": DEFINITIONS + schema["$ref"]}
    rewritten = {key: _rewritten(value) for key, value in schema.items()}
    if rewritten.get("format") == "int-or-string":
        del rewritten["format"]
        rewritten["type"] = ["string", "integer"]
    return rewritten


def _strict(definition: dict[str, Any]) -> dict[str, Any]:
    if "properties" in definition:
        definition.setdefault("additionalProperties", False)
    return definition


def _strict_all(schema: Any) -> Any:
    """A CRD has everything in one piece; an object without properties is free to have any."""
    if isinstance(schema, list):
        return [_strict_all(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    strict = {key: _strict_all(value) for key, value in schema.items()}
    if strict.get("x-kubernetes-int-or-string"):
        strict["type"] = ["string", "integer"]
    # Of the object as a whole only: `properties` may also be the name of a field.
    if strict.get("type") == "object" and isinstance(strict.get("properties"), dict):
        strict.setdefault("additionalProperties", False)
    if strict.get("properties", {}).keys() >= {"apiVersion", "kind", "metadata", "spec"}:
        # The API server knows what metadata is; the CRD leaves it to it.
        strict["properties"]["metadata"] = {"type": "object"}
    return strict


if __name__ == "__main__":
    sys.exit(main())
