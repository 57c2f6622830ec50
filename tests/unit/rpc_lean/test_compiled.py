"""The transport with and without its compiled modules: one source, one behaviour.

This suite runs compiled where that was built. Here all of it runs once more, in a process without.
"""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

from tests.unit.rpc_lean.compiled_modules import COMPILED, IS_COMPILED

ROOT = Path(__file__).parents[3]
HERE = Path(__file__).parent

needs_compiled = pytest.mark.skipif(not IS_COMPILED, reason="nothing was compiled here: make setup")


def in_a_new_process(*arguments: str, **environment: str) -> str:
    inherited = {name: value for name, value in os.environ.items() if name != "QUORATE_CODEC"}
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env=inherited | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@needs_compiled
def test_pure_modules_pass_the_same_tests() -> None:
    others = ("--ignore", __file__, "-p", "no:cacheprovider")
    in_a_new_process("-m", "pytest", "-q", "--nothing-skipped", *others, str(HERE), QUORATE_CODEC="pure")


@needs_compiled
def test_the_environment_forces_the_pure_modules() -> None:
    show = f"""
import importlib
for name in {COMPILED}:
    print(importlib.import_module("quorate.rpc.lean." + name).__file__)
"""
    assert all(path.endswith(".py") for path in in_a_new_process("-c", show, QUORATE_CODEC="pure").split())
    compiled = in_a_new_process("-c", show).split()
    assert all(path.endswith(tuple(EXTENSION_SUFFIXES)) for path in compiled), compiled


@needs_compiled
@pytest.mark.parametrize("name", COMPILED)
def test_each_compiled_module_can_be_the_first_that_is_imported(name: str) -> None:
    """They know each other's types, some of them in circles."""
    in_a_new_process("-c", f"import quorate.rpc.lean.{name}")
