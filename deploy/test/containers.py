"""The containers of a compose file, in a project of their own."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from deploy.test.commands import CannotTest, run, say
from deploy.test.image import IMAGE
from deploy.test.prometheus import PROMETHEUS_PORT, check_prometheus

__all__ = [
    "APART",
    "BOOTSTRAP",
    "COMBINED",
    "PROJECT",
    "ComposeFile",
    "Containers",
    "check_ports",
    "containers",
]

DEPLOY: Final = Path(__file__).resolve().parents[1]
PROJECT: Final = "quorate-deploy-test"
#: in each of the files
BOOTSTRAP: Final = "localhost:9092,localhost:9093,localhost:9094"
#: of what runs beside the nodes
PROFILE: Final = ("--profile", "observability")
_PROMETHEUS: Final = "prometheus"
_HEALTHY_TIMEOUT_S: Final = 180.0
_POLL_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class ComposeFile:
    name: str
    #: of containers that have no part in the records
    controllers: tuple[str, ...]
    #: of containers that are brokers, by their node ids
    brokers: Mapping[int, str]
    #: of observability/prometheus: whom its Prometheus scrapes
    targets: str

    @property
    def containers(self) -> tuple[str, ...]:
        return (*self.controllers, *self.brokers.values())


APART: Final = ComposeFile(
    "compose.yaml",
    tuple(f"quorate-controller-{number}" for number in (101, 102, 103)),
    {number: f"quorate-broker-{number}" for number in (1, 2, 3)},
    "targets.yaml",
)
COMBINED: Final = ComposeFile(
    "compose.combined.yaml",
    (),
    {number: f"quorate-{number}" for number in (1, 2, 3)},
    "targets.combined.yaml",
)


def check_ports() -> None:
    """Whether the ports that the files publish can be had: an image is built in minutes."""
    ports = [int(address.rpartition(":")[2]) for address in BOOTSTRAP.split(",")]
    for port in [*ports, PROMETHEUS_PORT]:
        with socket.socket() as listener:
            # As the engine's proxy does: what a connection of the past has left behind is in nobody's way.
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                listener.bind(("127.0.0.1", port))
            except OSError as error:
                raise CannotTest(f"the containers publish 127.0.0.1:{port}: {error.strerror}") from error


@asynccontextmanager
async def containers(compose: Sequence[str], file: ComposeFile) -> AsyncIterator[Containers]:
    """To be brought up inside; gone with their volumes afterwards."""
    running = Containers(compose, file)
    try:
        yield running
    except BaseException:
        await running.tell_logs()
        raise
    finally:
        await running.compose(*PROFILE, "down", "--volumes", "--timeout", "30")


class Containers:
    def __init__(self, compose: Sequence[str], file: ComposeFile) -> None:
        self._compose = compose
        self._file = file

    @property
    def file(self) -> str:
        return self._file.name

    def container_of_broker(self, broker_id: int) -> str:
        return self._file.brokers[broker_id]

    async def compose(self, *arguments: str) -> str:
        return await run(
            *(*self._compose, "--project-name", PROJECT, "--file", str(DEPLOY / self._file.name)),
            *arguments,
            environment={"QUORATE_IMAGE": IMAGE},
        )

    async def up(self) -> str:
        """Until all are healthy; what there is to tell."""
        began = time.monotonic()
        await self.compose("up", "--detach", "--no-build")
        await self.until_healthy()
        return f"{len(self._file.containers)} containers, healthy after {time.monotonic() - began:.1f} s"

    async def watch(self) -> str:
        """By the Prometheus beside them, which is gone again afterwards; what there is to tell."""
        await self.compose(*PROFILE, "up", "--detach", "--no-build", "--no-deps", _PROMETHEUS)
        try:
            told = await check_prometheus(self._file.targets)
        except CannotTest:
            end = await self.compose(*PROFILE, "logs", "--tail", "15", _PROMETHEUS)
            say("log", f"of Prometheus:\n{end.rstrip()}")
            raise
        await self.compose(*PROFILE, "rm", "--stop", "--force", _PROMETHEUS)
        return told

    async def down(self) -> None:
        """Their volumes stay."""
        await self.compose("down", "--timeout", "30")

    async def kill(self, name: str) -> None:
        await run("docker", "kill", name)

    async def start(self, name: str) -> None:
        await run("docker", "start", name)

    async def until_healthy(self) -> None:
        deadline = time.monotonic() + _HEALTHY_TIMEOUT_S
        while ill := {name: state for name, state in (await self._states()).items() if state != "healthy"}:
            if time.monotonic() > deadline:
                raise CannotTest(f"after {_HEALTHY_TIMEOUT_S:g} s: {ill}")
            await asyncio.sleep(_POLL_S)

    async def check_confinement(self) -> str:
        """That the engine does what the file asks for."""
        inspected = json.loads(await run("docker", "inspect", *self._file.containers))
        for each in inspected:
            if not each["HostConfig"]["ReadonlyRootfs"] or each["Config"]["User"] != "10001:10001":
                raise CannotTest(f"{each['Name']} may write to its root, or runs as {each['Config']['User']}")
        first = await run("docker", "exec", self._file.containers[0], "cat", "/proc/1/comm")
        if first.strip() != "tini":
            raise CannotTest(f"process 1 is {first.strip()}, not tini")
        return "read-only roots, user 10001, tini hears signals"

    async def tell_logs(self) -> None:
        for name in self._file.containers:
            end = await run("docker", "logs", "--tail", "15", name, is_checked=False)
            say("log", f"of {name}:\n{end.rstrip()}")

    async def _states(self) -> dict[str, str]:
        names = self._file.containers
        states = await run(*("docker", "inspect", "--format", "{{.State.Health.Status}}"), *names)
        return dict(zip(names, states.split(), strict=True))
