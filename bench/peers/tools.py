"""What other systems need on this machine, fetched once for each version into .tools.

None of it is a requirement of ours, not even of our developers. A client library has an environment of its
own, and runs in a process of its own there, so that the project's set-up stays as small as it is.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from rich.console import Console

from quorate.chaos.peers.peer import PeerUnavailable

__all__ = ["ROOT", "TOOLS", "fetching", "python_with", "require", "run"]

ROOT: Final = Path(__file__).resolve().parents[2]
TOOLS: Final = ROOT / ".tools"
_SAID_MAX: Final = 4_000


def require(program: str, *, by: str) -> None:
    if shutil.which(program) is None:
        raise PeerUnavailable(f"{by} needs {program}, which is not on the path")


@contextmanager
def fetching(what: str, *, takes: str) -> Iterator[None]:
    """Says so while it lasts, and why it failed."""
    console = Console(stderr=True)
    line = f"fetching {what} (once; {takes})"
    if not console.is_terminal:
        console.print(line)
    try:
        with console.status(line):
            yield
    except PeerUnavailable as error:
        raise PeerUnavailable(
            f"{what} could not be fetched; can its registry be reached?\n{error}"
        ) from error


def python_with(package: str, version: str) -> Path:
    """An interpreter that has this package, and no other."""
    environment = TOOLS / f"{package}-{version}"
    if not environment.exists():
        with fetching(f"{package} {version}", takes="some seconds"):
            _make_environment(environment, f"{package}=={version}")
    return environment / "bin" / "python"


def _make_environment(directory: Path, requirement: str) -> None:
    """Scripts in an environment name its folder, so it is made in its place, and removed if that fails."""
    directory.parent.mkdir(exist_ok=True)
    try:
        run(sys.executable, "-m", "venv", directory)
        pip = (directory / "bin" / "python", "-m", "pip", "--disable-pip-version-check", "--no-input")
        run(*pip, "install", "--quiet", requirement)
    except BaseException:
        shutil.rmtree(directory, ignore_errors=True)
        raise


def run(*command: str | Path, environment: Mapping[str, str] | None = None) -> None:
    """To its end; what it said is in the error if that was not a good one."""
    finished = subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, **(environment or {})}
    )
    if finished.returncode != 0:
        said = (finished.stdout + finished.stderr).strip()[-_SAID_MAX:]
        raise PeerUnavailable(f"{' '.join(map(str, command))}\n{said}")
