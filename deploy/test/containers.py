"""The containers of compose.yaml, in a project of their own."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from deploy.test.commands import CannotTest, run, say
from deploy.test.image import IMAGE

__all__ = ["BOOTSTRAP", "PROJECT", "Containers", "check_ports", "containers"]

DEPLOY: Final = Path(__file__).resolve().parents[1]
PROJECT: Final = "quorate-deploy-test"
NODES: Final = ("controller-101", "controller-102", "controller-103", "broker-1", "broker-2", "broker-3")
BOOTSTRAP: Final = "localhost:9092,localhost:9093,localhost:9094"
_HEALTHY_TIMEOUT_S: Final = 180.0
_POLL_S: Final = 1.0


def check_ports() -> None:
    """Whether the ports that compose.yaml publishes can be had: an image is built in minutes."""
    for address in BOOTSTRAP.split(","):
        port = int(address.rpartition(":")[2])
        with socket.socket() as listener:
            # As the engine's proxy does: what a connection of the past has left behind is in nobody's way.
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                listener.bind(("127.0.0.1", port))
            except OSError as error:
                raise CannotTest(f"the containers publish 127.0.0.1:{port}: {error.strerror}") from error


@asynccontextmanager
async def containers(compose: Sequence[str]) -> AsyncIterator[Containers]:
    """Brought up inside, and gone with their volumes afterwards."""
    running = Containers(compose)
    try:
        await running.up()
        yield running
    except BaseException:
        await running.tell_logs()
        raise
    finally:
        await running.compose("down", "--volumes", "--timeout", "30")


class Containers:
    def __init__(self, compose: Sequence[str]) -> None:
        self._compose = compose

    async def compose(self, *arguments: str) -> str:
        return await run(
            *(*self._compose, "--project-name", PROJECT, "--file", str(DEPLOY / "compose.yaml")),
            *arguments,
            environment={"QUORATE_IMAGE": IMAGE},
        )

    async def up(self) -> None:
        began = time.monotonic()
        await self.compose("up", "--detach", "--no-build")
        await self.until_healthy()
        say("up", f"{len(NODES)} containers, healthy after {time.monotonic() - began:.1f} s")

    async def down(self) -> None:
        """Their volumes stay."""
        await self.compose("down", "--timeout", "30")

    async def kill(self, node: str) -> None:
        await run("docker", "kill", container(node))

    async def start(self, node: str) -> None:
        await run("docker", "start", container(node))

    async def until_healthy(self) -> None:
        deadline = time.monotonic() + _HEALTHY_TIMEOUT_S
        while ill := {node: state for node, state in (await self._states()).items() if state != "healthy"}:
            if time.monotonic() > deadline:
                raise CannotTest(f"after {_HEALTHY_TIMEOUT_S:g} s: {ill}")
            await asyncio.sleep(_POLL_S)

    async def check_confinement(self) -> None:
        """That the engine does what the file asks for."""
        inspected = json.loads(await run("docker", "inspect", *map(container, NODES)))
        for each in inspected:
            if not each["HostConfig"]["ReadonlyRootfs"] or each["Config"]["User"] != "10001:10001":
                raise CannotTest(f"{each['Name']} may write to its root, or runs as {each['Config']['User']}")
        first = await run("docker", "exec", container(NODES[0]), "cat", "/proc/1/comm")
        if first.strip() != "tini":
            raise CannotTest(f"process 1 is {first.strip()}, not tini")
        say("check", "read-only roots, user 10001, tini hears signals")

    async def tell_logs(self) -> None:
        for node in NODES:
            end = await run("docker", "logs", "--tail", "15", container(node), is_checked=False)
            say("log", f"of {node}:\n{end.rstrip()}")

    async def _states(self) -> dict[str, str]:
        states = await run(
            *("docker", "inspect", "--format", "{{.State.Health.Status}}"), *map(container, NODES)
        )
        return dict(zip(NODES, states.split(), strict=True))


def container(node: str) -> str:
    return f"quorate-{node}"
