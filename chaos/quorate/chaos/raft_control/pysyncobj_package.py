"""The package under test, loaded when needed: an installation without the extra has this module too."""

from __future__ import annotations

import functools
import importlib
from typing import Any

from quorate.errors import MissingExtra

__all__ = ["load_pysyncobj"]


@functools.cache
def load_pysyncobj() -> Any:
    """The package ``pysyncobj`` and those of its modules that are used here. Raises MissingExtra."""
    try:
        package = importlib.import_module("pysyncobj")
        for module in ("batteries", "journal", "node", "pickle", "syncobj"):
            importlib.import_module(f"pysyncobj.{module}")
    except ImportError as error:
        raise MissingExtra(
            "the control needs pysyncobj: pip install 'quorate[chaos]'", extra="chaos"
        ) from error
    return package
