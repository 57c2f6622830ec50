"""Writes constraints.txt anew: the newest versions that pyproject.toml allows, tried together.

They come from an installation into an empty environment without the old pins, so what is written is
a set that pip could resolve. Run `make test` before keeping it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import tomllib
import venv
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
CONSTRAINTS: Final = ROOT / "constraints.txt"
# What hatchling asks for beyond build-system.requires when an installation is editable.
EDITABLE_REQUIREMENT: Final = "editables"
HEADER: Final = """\
# The exact version of every package that set-up installs: what pyproject.toml asks for, what those
# packages need in turn, and the tools that build the wheel. `make pins` writes this file anew.
"""


def main() -> int:
    build_requirements = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
    with tempfile.TemporaryDirectory() as directory:
        venv.create(directory, with_pip=True)
        pip = [f"{directory}/bin/python", "-m", "pip", "--disable-pip-version-check"]
        unpinned = {name: value for name, value in os.environ.items() if "CONSTRAINT" not in name}
        wanted = [*build_requirements, EDITABLE_REQUIREMENT, f"{ROOT}[dev,delta]"]
        subprocess.run([*pip, "install", "--quiet", *wanted], env=unpinned, check=True)
        frozen = subprocess.run(
            [*pip, "freeze", "--all", "--exclude", "pip", "--exclude", "quorate"],
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        ).stdout
    CONSTRAINTS.write_text(HEADER + "".join(sorted(frozen.splitlines(keepends=True), key=str.casefold)))
    print(f"wrote {CONSTRAINTS.name}: {len(frozen.splitlines())} packages")
    return 0


if __name__ == "__main__":
    sys.exit(main())
