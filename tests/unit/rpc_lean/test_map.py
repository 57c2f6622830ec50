"""The map of the lean transport, in the docstring of its package: all of it, from the bytes upwards."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Final

from quorate.rpc import lean
from tests.unit.rpc_lean.compiled_modules import FOLDER

_MODULES: Final = {path.stem for path in FOLDER.glob("*.py")} - {"__init__"}
_PACKAGE: Final = "quorate.rpc.lean"


def _layers() -> list[list[str]]:
    assert lean.__doc__ is not None
    items = re.findall(r"^- .*(?:\n  .*)*", lean.__doc__, re.MULTILINE)
    return [re.findall(r"``(\w+)``", item) for item in items]


def test_each_module_has_one_place() -> None:
    assert sorted(name for layer in _layers() for name in layer) == sorted(_MODULES)


def test_each_layer_knows_only_those_before_it() -> None:
    known: set[str] = set()
    for layer in _layers():
        known.update(layer)
        for name in layer:
            assert set(_imported_by(name)) <= known, name


def _imported_by(name: str) -> Iterator[str]:
    """Of this package; what is imported for types alone stands within an ``if``."""
    for node in ast.parse((FOLDER / f"{name}.py").read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ImportFrom) and node.module == _PACKAGE:
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            package, _, module = node.module.rpartition(".")
            if package == _PACKAGE:
                yield module
