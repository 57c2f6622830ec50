"""Steps on a disk, drawn from a seed and carried out on any: in this process, or in one under the shim."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import random
import signal
import sys
from typing import Any, Final

from quorate.core.disk import Disk, File
from quorate.core.os_disk import OsDisk

Step = list[Any]

_PARENTS: Final = ("", "d/", "d/e/")
_NAMES: Final = ("a", "b", "c")


def draw_script(rng: random.Random, length: int) -> list[Step]:
    """Bytes as text, so that it can be sent to another process."""
    return [_draw_step(rng) for _ in range(length)]


def _draw_step(rng: random.Random) -> Step:
    parent = rng.choice(_PARENTS)
    path = parent + rng.choice(_NAMES)
    content = f"<{rng.getrandbits(32):08x}>" * rng.randint(1, 3)
    return rng.choice(
        (
            ["open", path],
            ["open", path],
            ["pwrite", content, rng.randint(0, 60)],
            ["append", content],
            ["append", content],
            ["truncate", rng.randint(0, 60)],
            ["fdatasync"],
            ["fdatasync"],
            ["write_file", path, content],
            ["fsync_directory", parent.rstrip("/")],
            ["fsync_directory", parent.rstrip("/")],
            ["make_directory", rng.choice(("d", "d/e"))],
            ["remove_directory", rng.choice(("d", "d/e"))],
            ["rename", path, parent + rng.choice(_NAMES)],
            ["rename", "d/e", "d/f"],
            ["unlink", path],
        )
    )


class ScriptRunner:
    """Steps on an open file are for the one that was opened last."""

    def __init__(self, disk: Disk, base: str) -> None:
        self._disk = disk
        self._base = base
        self._files: list[File] = []

    async def run(self, script: list[Step]) -> list[str]:
        """What came of each step."""
        return [await self._outcome(step) for step in script]

    async def _outcome(self, step: Step) -> str:
        try:
            await self._do(*step)
        except OSError as error:
            return errno.errorcode[error.errno or 0]
        return "done"

    async def _do(self, name: str, *arguments: Any) -> None:
        if name == "open":
            self._files.append(self._disk.open(self._path(arguments[0]), create=True))
        elif name in ("pwrite", "append", "truncate", "fdatasync"):
            await self._do_to_file(name, arguments)
        elif name == "write_file":
            await self._disk.write_file(self._path(arguments[0]), arguments[1].encode())
        elif name == "fsync_directory":
            await self._disk.fsync_directory(self._path(arguments[0]))
        else:
            getattr(self._disk, name)(*map(self._path, arguments))

    async def _do_to_file(self, name: str, arguments: tuple[Any, ...]) -> None:
        if not self._files:
            return
        file = self._files[-1]
        if name == "pwrite":
            file.pwrite(arguments[0].encode(), arguments[1])
        elif name == "append":
            file.pwritev([arguments[0].encode(), b"|"], file.size())
        elif name == "truncate":
            file.truncate(arguments[0])
        else:
            await file.fdatasync()

    def _path(self, path: str) -> str:
        return f"{self._base}/{path}" if path else self._base


async def _run_all(root: str, scripts: dict[str, list[Step]]) -> dict[str, list[str]]:
    disk = OsDisk(sync_threads=1)
    for name in scripts:
        disk.make_directory(f"{root}/{name}")
    await disk.fsync_directory(root)
    return {name: await ScriptRunner(disk, f"{root}/{name}").run(script) for name, script in scripts.items()}


def main() -> None:
    """In the shim's process: scripts by name on standard input, outcomes on standard output, then kill -9."""
    outcomes = asyncio.run(_run_all(sys.argv[1], json.load(sys.stdin)))
    sys.stdout.write(json.dumps(outcomes))
    sys.stdout.flush()
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main()
