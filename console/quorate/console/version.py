"""What ``quorate --version`` says."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version

from quorate.core.records import CODEC

__all__ = ["version_line"]


def version_line() -> str:
    try:
        installed = version("quorate")
    except PackageNotFoundError:
        installed = "(not installed: run from a source tree)"
    return f"quorate {installed}, Python {platform.python_version()}, codec {CODEC}"
