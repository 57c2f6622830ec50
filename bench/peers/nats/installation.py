"""Gets nats-server from the Go proxy, and nats-py from PyPI, once for each version."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final, NamedTuple

from bench.peers.tools import TOOLS, fetching, python_with, require, run

__all__ = ["Installation", "install"]

NATS_SERVER: Final = "2.15.2"
NATS_PY: Final = "2.16.0"


class Installation(NamedTuple):
    version: str
    server: Path
    client_version: str
    #: an interpreter that has nats-py
    python: Path


def install() -> Installation:
    """Fetches what is not there yet."""
    directory = TOOLS / f"nats-server-{NATS_SERVER}"
    if not directory.exists():
        require("go", by="NATS")
        with fetching(f"nats-server {NATS_SERVER}", takes="two minutes"):
            _build_server(directory)
    return Installation(NATS_SERVER, directory / "nats-server", NATS_PY, python_with("nats-py", NATS_PY))


def _build_server(directory: Path) -> None:
    """Into place only once it is whole: a directory that exists is one that can be used."""
    unfinished = directory.with_name(f"{directory.name}.new")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    module = f"github.com/nats-io/nats-server/v2@v{NATS_SERVER}"
    run("go", "install", module, environment={"GOBIN": str(unfinished)})
    unfinished.rename(directory)
