"""Storage, metadata, broker and controller touch files through the Disk seam only, and have no threads.

Otherwise the simulator would not see the access: it could not fail it, forget it or replay it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROOTS_BEHIND_THE_SEAM = ("storage", "metadata", "broker", "controller")

#: modules whose whole purpose lies behind the seam
FORBIDDEN_MODULES = {
    "aiofiles",
    "concurrent.futures",
    "fcntl",
    "glob",
    "io",
    "mmap",
    "multiprocessing",
    "pathlib",
    "shutil",
    "subprocess",
    "tempfile",
    "threading",
}
#: what is left of ``os``: nothing that touches a file
ALLOWED_FROM_OS = {"fspath", "strerror"}
#: of ``os.path``, what works on names alone
ALLOWED_FROM_OS_PATH = {"basename", "commonprefix", "dirname", "join", "normpath", "split", "splitext"}
FORBIDDEN_BUILTINS = {"open"}
FORBIDDEN_METHODS = {"run_in_executor", "to_thread"}


def violations(source: str) -> list[str]:
    """Each as "line: what"."""
    tree = ast.parse(source)
    return [f"{line}: {what}" for line, what in sorted(_violations(tree))]


def _violations(tree: ast.AST) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names if _is_forbidden(alias.name))
        elif isinstance(node, ast.ImportFrom):
            yield from _in_import_from(node)
        elif isinstance(node, ast.Name) and node.id in FORBIDDEN_BUILTINS:
            yield node.lineno, node.id
        elif isinstance(node, ast.Attribute):
            yield from _in_attribute(node)


def _in_import_from(node: ast.ImportFrom) -> Iterator[tuple[int, str]]:
    module = node.module or ""
    partly_allowed = {
        "os": ALLOWED_FROM_OS | {"path"},
        "os.path": ALLOWED_FROM_OS_PATH,
        "posixpath": ALLOWED_FROM_OS_PATH,
    }
    for alias in node.names:
        full_name = f"{module}.{alias.name}"
        beyond = alias.name not in partly_allowed.get(module, {alias.name})
        if beyond or _is_forbidden(module) or _is_forbidden(full_name):
            yield node.lineno, full_name


def _in_attribute(node: ast.Attribute) -> Iterator[tuple[int, str]]:
    name = ast.unparse(node)
    if name.startswith(("os.path.", "posixpath.")) and node.attr not in ALLOWED_FROM_OS_PATH:
        yield node.lineno, name
    elif isinstance(node.value, ast.Name) and node.value.id == "os":
        if node.attr != "path" and node.attr not in ALLOWED_FROM_OS:
            yield node.lineno, name
    elif node.attr in FORBIDDEN_METHODS:
        yield node.lineno, name


def _is_forbidden(module: str) -> bool:
    return any(module == name or module.startswith(f"{name}.") for name in FORBIDDEN_MODULES)


SOURCES = sorted(path for root in ROOTS_BEHIND_THE_SEAM for path in (ROOT / root).rglob("*.py"))


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_files_are_reached_through_the_disk_seam_only(path: Path) -> None:
    assert violations(path.read_text()) == []


def test_the_rule_looks_at_every_root() -> None:
    assert {path.relative_to(ROOT).parts[0] for path in SOURCES} == set(ROOTS_BEHIND_THE_SEAM)


@pytest.mark.parametrize(
    "source",
    [
        "open('x')",
        "reader = open",
        "import pathlib",
        "from pathlib import Path",
        "import os\nos.open('x', 0)",
        "import os\nos.fsync(3)",
        "import os\nos.path.exists('x')",
        "import os.path\nos.path.getsize('x')",
        "from os import listdir",
        "from os.path import isfile",
        "import posixpath\nposixpath.exists('x')",
        "from posixpath import exists",
        "import shutil",
        "from shutil import rmtree",
        "import aiofiles",
        "import aiofiles.os",
        "import threading",
        "from concurrent.futures import ThreadPoolExecutor",
        "from concurrent import futures",
        "async def f():\n    await asyncio.to_thread(g)",
        "loop.run_in_executor(None, g)",
        "import tempfile",
        "import mmap",
        "import io\nio.open('x')",
    ],
)
def test_the_rule_finds(source: str) -> None:
    assert len(violations(source)) == 1


@pytest.mark.parametrize(
    "source",
    [
        "disk.open('x')",
        "self._disk.open(path, create=True)",
        "import os\nos.strerror(28)",
        "import os\nos.path.join('a', 'b')",
        "from os.path import dirname",
        "import posixpath\nposixpath.join('a', 'b')",
        "from posixpath import join",
        "class Disk:\n    def open(self): ...",
    ],
)
def test_the_rule_allows(source: str) -> None:
    assert violations(source) == []
