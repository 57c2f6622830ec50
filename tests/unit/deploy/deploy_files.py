"""The files under deploy/, as tests look at them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

__all__ = ["DEPLOY", "ROOT", "node_environment", "node_services", "read"]

ROOT = Path(__file__).parents[3]
DEPLOY = ROOT / "deploy"


def read(name: str) -> Any:
    """A YAML file."""
    return yaml.safe_load((DEPLOY / name).read_text())


def node_services(name: str) -> dict[str, dict[str, Any]]:
    """Those of a compose file that are nodes of ours."""
    services: dict[str, dict[str, Any]] = read(name)["services"]
    return {key: service for key, service in services.items() if "build" in service}


def node_environment(service: dict[str, Any]) -> dict[str, str]:
    """As the container has it: what the image sets, and what the service does."""
    image = {"QUORATE_DATA_DIR": "/var/lib/quorate", "QUORATE_METRICS_ADDRESS": "0.0.0.0:9644"}
    return {**image, **{key: str(value) for key, value in service["environment"].items()}}
