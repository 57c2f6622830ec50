"""A container engine: the one that runs, or one that is started for the test and ended with it.

Ours has everything of its own in a temporary directory. It leaves the firewall of the machine as it is: ports
are published by its proxy, containers of one network see each other without rules, and images are built in
the network of the machine. Packages that were installed for it stay.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from deploy.test.commands import CannotTest, has_program, run, say

__all__ = ["compose_command", "engine"]

#: Debian's
_PACKAGES: Final = ("docker.io", "docker-compose", "debootstrap", "iptables")
_START_TIMEOUT_S: Final = 60.0
_STOP_TIMEOUT_S: Final = 60.0
_POLL_S: Final = 0.5
_LOG_LINES: Final = 20


@asynccontextmanager
async def engine() -> AsyncIterator[None]:
    """Inside, ``docker`` reaches one: DOCKER_HOST says which."""
    if has_program("docker") and await _answers():
        say("engine", "the one that runs here")
        yield
        return
    await _install()
    directory = tempfile.mkdtemp(prefix="quorate-engine-")
    os.environ["DOCKER_HOST"] = f"unix://{directory}/docker.sock"
    try:
        async with _daemon(directory):
            yield
    finally:
        del os.environ["DOCKER_HOST"]
        await _remove(directory)


async def compose_command() -> list[str]:
    """The plugin, or the program that it came from."""
    if await _succeeds("docker", "compose", "version"):
        return ["docker", "compose"]
    if has_program("docker-compose"):
        return ["docker-compose"]
    raise CannotTest("neither `docker compose` nor docker-compose is installed")


async def _install() -> None:
    if has_program("dockerd") and has_program("docker") and await _has_compose():
        return
    if os.geteuid() != 0 or not has_program("apt-get"):
        raise CannotTest(
            "no engine answers, and none can be installed here: that takes root and Debian's "
            f"{', '.join(_PACKAGES)}"
        )
    say("engine", f"installing {', '.join(_PACKAGES)}")
    quiet = {"DEBIAN_FRONTEND": "noninteractive"}
    await run("apt-get", "update", "--quiet", environment=quiet)
    await run("apt-get", "install", "--yes", "--no-install-recommends", *_PACKAGES, environment=quiet)


async def _has_compose() -> bool:
    return has_program("docker-compose") or await _succeeds("docker", "compose", "version")


@asynccontextmanager
async def _daemon(directory: str) -> AsyncIterator[None]:
    log_path = f"{directory}/dockerd.log"
    with open(log_path, "wb") as log:
        process = await asyncio.create_subprocess_exec(
            "dockerd",
            *("--host", os.environ["DOCKER_HOST"], "--pidfile", f"{directory}/pid"),
            *("--data-root", f"{directory}/data", "--exec-root", f"{directory}/exec"),
            *("--iptables=false", "--ip6tables=false", "--ip-forward=false", "--ip-masq=false"),
            # Compose makes a network of its own, and removes it; the default one would stay behind.
            "--bridge=none",
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    try:
        await _until_it_answers(process, log_path)
        say("engine", f"dockerd, for this test alone, in {directory}")
        yield
    finally:
        if process.returncode is None:
            process.terminate()
            await asyncio.wait_for(process.wait(), _STOP_TIMEOUT_S)


async def _until_it_answers(process: asyncio.subprocess.Process, log_path: str) -> None:
    deadline = time.monotonic() + _START_TIMEOUT_S
    while not await _answers():
        if process.returncode is not None or time.monotonic() > deadline:
            with open(log_path, encoding="utf-8", errors="replace") as log:
                end = "".join(log.readlines()[-_LOG_LINES:])
            raise CannotTest(f"no engine runs here: dockerd does not start; the end of its log:\n{end}")
        await asyncio.sleep(_POLL_S)


async def _remove(directory: str) -> None:
    """An engine leaves the network of the machine mounted there, by name, for containers that share it."""
    with open("/proc/self/mounts", encoding="utf-8") as mounts:
        mounted = [line.split()[1] for line in mounts]
    for path in sorted(mounted, reverse=True):
        if path.startswith(f"{directory}/"):
            await run("umount", path)
    shutil.rmtree(directory)


async def _answers() -> bool:
    return await _succeeds("docker", "info", "--format", "{{.ServerVersion}}")


async def _succeeds(*command: str) -> bool:
    process = await asyncio.create_subprocess_exec(
        *command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    return await process.wait() == 0
