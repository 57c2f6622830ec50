"""Finds redis-server on the path, and gets the Python client from PyPI, once for each version."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Final, NamedTuple

from bench.peers.tools import python_with
from quorate.chaos.peers.peer import PeerUnavailable

__all__ = ["Installation", "install"]

REDIS_PY: Final = "6.4.0"


class Installation(NamedTuple):
    version: str
    server: Path
    #: an interpreter that has redis-py
    python: Path


def install() -> Installation:
    found = shutil.which("redis-server")
    if found is None:
        raise PeerUnavailable("Redis needs redis-server on the path: install it with the system's packages")
    told = subprocess.run([found, "--version"], capture_output=True, text=True, check=True).stdout
    version = re.search(r"v=([\d.]+)", told)
    return Installation(version[1] if version else "?", Path(found), python_with("redis", REDIS_PY))
