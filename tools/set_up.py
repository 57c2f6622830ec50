"""Makes .venv what pyproject.toml and constraints.txt ask for.

`make` runs this with the machine's own Python whenever one of those two files is newer than the last
set-up, so it needs nothing but the standard library.

Invariants:
- `.venv/.set-up` exists only after a set-up that went through. It holds the folder of the tree and a
  fingerprint of what was asked for, so a touched or reformatted file costs nothing, and an environment that
  was copied along with its tree (and would run the old tree's code) is noticed and made anew.
- `.venv/.set-up-unfinished` exists while packages are being changed. Whoever finds it starts from nothing: a
  half-made environment is never repaired, because nobody can say which half is there.
- One set-up at a time per tree, by a file lock that ends with its process.

Rejected: installing without build isolation. It would save a few seconds, but the ordinary
`pip install` that users run would then be proven nowhere in daily work.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
WHICH_CODEC: Final = "from quorate.core.records import CODEC; print(CODEC)"


class SetUpFailed(Exception):
    """A step failed; the message holds what the command said."""


def main() -> int:
    environment = Environment(ROOT)
    started = time.monotonic()
    try:
        with one_at_a_time(ROOT / ".tools" / "set-up.lock"):
            if environment.is_current():
                environment.confirm()
                return 0
            environment.install()
    except SetUpFailed as failure:
        print(f"set-up failed: {failure}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("set-up interrupted; the next one starts from nothing", file=sys.stderr)
        return 130
    say(f"ready in {time.monotonic() - started:.0f} s ({environment.codec()})")
    return 0


class Environment:
    """The virtual environment of one tree."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._directory = root / ".venv"
        self._python = self._directory / "bin" / "python"
        self._done = self._directory / ".set-up"
        self._unfinished = self._directory / ".set-up-unfinished"

    def is_current(self) -> bool:
        if not self._is_usable() or not self._done.exists():
            return False
        return self._done.read_text() == self._description()

    def confirm(self) -> None:
        """Nothing to do: tell make so, which compares times."""
        self._done.touch()

    def install(self) -> None:
        if not self._is_usable():
            say(f"creating .venv with Python {sys.version.split()[0]}")
            run([sys.executable, "-m", "venv", "--clear", str(self._directory)])
        self._unfinished.touch()
        self._done.unlink(missing_ok=True)
        say("installing the pinned packages and building the codec (about a minute)")
        # Not compiling every module of every package saves a quarter of the time; Python compiles on import.
        install = [*self._pip(), "install", "--quiet", "--no-compile", "--editable", ".[dev]"]
        run(install, cwd=self._root, env=self._pins())
        self._done.write_text(self._description())
        self._unfinished.unlink()

    def codec(self) -> str:
        answer = subprocess.run(
            [self._python, "-c", WHICH_CODEC], capture_output=True, text=True, check=False
        )
        if answer.stdout.strip() == "compiled":
            return "the codec is compiled"
        return "the codec is pure Python; `.venv/bin/python build_codec.py` says why it is not compiled"

    def _is_usable(self) -> bool:
        if self._unfinished.exists() or not self._python.exists():
            return False
        # Its scripts name the folder that it was made in.
        if self._done.exists() and self._done.read_text().splitlines()[0] != str(self._root):
            return False
        return subprocess.run([*self._pip(), "--version"], capture_output=True, check=False).returncode == 0

    def _pip(self) -> list[str]:
        return [str(self._python), "-m", "pip", "--disable-pip-version-check", "--no-input"]

    def _pins(self) -> dict[str, str]:
        # By environment, not by option: pip then also pins what it fetches to build the wheel with. Older
        # versions of pip know only the first name for that, newer ones only the second.
        constraints = str(self._root / "constraints.txt")
        return {**os.environ, "PIP_CONSTRAINT": constraints, "PIP_BUILD_CONSTRAINT": constraints}

    def _description(self) -> str:
        return f"{self._root}\n{fingerprint(self._root)}\n"


def fingerprint(root: Path) -> str:
    """Changes when something that gets installed changes, not when a linter's settings do."""
    project = tomllib.loads((root / "pyproject.toml").read_text())
    asked_for = {
        "build-system": project["build-system"],
        "project": project["project"],
        "hatch": project["tool"]["hatch"],
        "constraints": (root / "constraints.txt").read_text(),
    }
    return hashlib.sha256(json.dumps(asked_for, sort_keys=True).encode()).hexdigest()


@contextmanager
def one_at_a_time(lock_path: Path) -> Iterator[None]:
    lock_path.parent.mkdir(exist_ok=True)
    with lock_path.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("waiting for another set-up of this tree")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def run(command: list[str], *, cwd: Path | None = None, env: dict[str, str] | None = None) -> None:
    finished = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, check=False)
    if finished.returncode != 0:
        output = (finished.stdout + finished.stderr).strip()
        raise SetUpFailed(f"{' '.join(command)}\n{output}")


def say(text: str) -> None:
    print(f"set-up: {text}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
