"""Any cluster whose nodes can be killed and started by shell commands: docker compose, ssh, kubectl.

A TOML file names the nodes and gives a command for each action that is possible; see examples/drill-agents.
In a command, ``{node}``, ``{id}`` and ``{data_dir}`` stand for the node that it is about. An action without a
command cannot be done, and drills that need it are skipped.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
import tomllib
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final, NoReturn

from quorate.chaos.drills.agent import Ability, AgentNode
from quorate.errors import InvalidConfig, Unavailable, UnsupportedOperation

__all__ = ["CommandAgent"]

_TIMEOUT_S: Final = 120.0
_ERROR_CHARACTERS_MAX: Final = 500
#: what an action allows drills to do; "up" and "down" are for a cluster that the drill itself brings up
_ACTIONS: Final[Mapping[str, Ability | None]] = {
    "up": None,
    "down": None,
    "start": None,
    "kill": Ability.KILL,
    "stop": Ability.STOP,
    "pause": Ability.PAUSE,
    "resume": Ability.PAUSE,
    "wipe": Ability.WIPE,
    "isolate": Ability.ISOLATE,
    "heal": Ability.ISOLATE,
}
_PAIRS: Final = (
    ("up", "down"),
    ("pause", "resume"),
    ("isolate", "heal"),
    ("kill", "start"),
    ("stop", "start"),
)
_KEYS: Final = frozenset({"kind", "bootstrap", "nodes", "commands"})


@dataclass(frozen=True, slots=True)
class _CommandNode(AgentNode):
    data_dir: str | None


class CommandAgent:
    network: Final = None

    def __init__(
        self, *, kind: str, bootstrap: str, nodes: Sequence[_CommandNode], commands: Mapping[str, str]
    ) -> None:
        """For ``from_file``."""
        self.kind = kind
        self.bootstrap = bootstrap
        self.nodes: Sequence[AgentNode] = nodes
        self._by_name = {node.name: node for node in nodes}
        self._commands = commands
        self.is_temporary = "up" in commands
        self.facts: Mapping[str, str] = {f"to {action}": command for action, command in commands.items()}
        given = {ability for action in commands if (ability := _ACTIONS[action]) is not None}
        # Neither Ability.LOGS nor FILES: whether damage was noticed stands in the nodes' logs, which are
        # elsewhere, and who counts none there would call it unnoticed.
        self.abilities = frozenset(given)

    @classmethod
    def from_file(cls, path: str) -> CommandAgent:
        try:
            with open(path, "rb") as file:
                document = tomllib.load(file)
        except (OSError, ValueError) as error:
            raise InvalidConfig(f"the agent file {path} cannot be read: {error}", path=path) from error
        try:
            return cls(
                kind=str(document.get("kind", "commands")),
                bootstrap=_text(document, "bootstrap"),
                nodes=[_node(each) for each in document["nodes"]],
                commands=_commands(document),
            )
        except KeyError as error:
            message = f"{path} is no agent file: it has no {error.args[0]} (examples/drill-agents have)"
            raise InvalidConfig(message, path=path) from error
        except (TypeError, ValueError) as error:
            raise InvalidConfig(f"{path} is no agent file: {error}", path=path) from error

    def what_is_missing_for(self, abilities: Collection[Ability]) -> str:
        actions = [action for action, ability in _ACTIONS.items() if ability in abilities]
        absent = [action for action in actions if action not in self._commands]
        if {*abilities} - {*_ACTIONS.values()}:
            return "that takes a cluster on this machine, which no command makes up for"
        return f"it has no command{'s' if len(absent) > 1 else ''} for {', '.join(absent)}"

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """With ``up`` and ``down`` the cluster is the drill's own; without, one that runs is attached to."""
        try:
            await self._run_if_given("up")
            yield
        finally:
            await self._run_if_given("down")

    async def discard(self) -> None:
        """Nothing was brought up."""

    async def start(self, *names: str) -> None:
        await self._each("start", names)

    async def kill(self, *names: str) -> None:
        await self._each("kill", names)

    async def stop(self, *names: str) -> None:
        await self._each("stop", names)

    async def pause(self, name: str) -> None:
        await self._each("pause", [name])

    async def resume(self, name: str) -> None:
        await self._each("resume", [name])

    async def wipe(self, name: str) -> None:
        await self._each("wipe", [name])

    async def isolate(self, name: str) -> None:
        await self._each("isolate", [name])

    async def heal(self) -> None:
        await self._each("heal", [node.name for node in self.nodes])

    async def add_broker(self) -> str:
        raise UnsupportedOperation("an agent of commands cannot add a broker")

    def disk(self, name: str) -> NoReturn:
        raise UnsupportedOperation(f"an agent of commands has no say in what the disk of {name} keeps")

    def times_logged(self, event: str, *, node: str | None = None, about: str = "") -> NoReturn:  # noqa: ARG002  # their logs are elsewhere
        raise UnsupportedOperation(f"an agent of commands cannot tell how often {event} was logged")

    def data_dir(self, name: str) -> str | None:
        return self._by_name[name].data_dir

    # -- commands

    async def _each(self, action: str, names: Sequence[str]) -> None:
        """All at once: "kill" of several nodes is a fault of its own."""
        results = await asyncio.gather(
            *(_run(self._filled_in(action, name)) for name in names), return_exceptions=True
        )
        for result in results:
            if isinstance(result, BaseException):
                raise result

    async def _run_if_given(self, action: str) -> None:
        if action in self._commands:
            await _run(self._commands[action])

    def _filled_in(self, action: str, name: str) -> str:
        node = self._by_name[name]
        command = self._commands.get(action)
        if command is None:
            raise UnsupportedOperation(f"the agent has no command for {action}")
        # Not str.format: braces mean something to a shell, and to `docker inspect --format`.
        values = {"{node}": node.name, "{id}": str(node.id), "{data_dir}": node.data_dir or ""}
        for placeholder, value in values.items():
            command = command.replace(placeholder, shlex.quote(value))
        return command


def _text(document: Mapping[str, Any], key: str) -> str:
    value = document[key]
    if not isinstance(value, str):
        raise TypeError(f"{key} must be a string")
    return value


def _node(document: Mapping[str, Any]) -> _CommandNode:
    return _CommandNode(
        name=_text(document, "name"),
        id=int(document["id"]),
        roles=tuple(document["roles"]),
        data_dir=document.get("data_dir"),
    )


def _commands(document: Mapping[str, Any]) -> dict[str, str]:
    unknown = sorted({*document} - _KEYS)
    if unknown:
        raise ValueError(f"{', '.join(unknown)}: no such key")
    commands = dict(document["commands"])
    for action, command in commands.items():
        if action not in _ACTIONS:
            raise ValueError(f"{action}: no such action; there are {', '.join(_ACTIONS)}")
        if not isinstance(command, str):
            raise TypeError(f"the command for {action} must be a string")
    for action, other in _PAIRS:
        if action in commands and other not in commands:
            raise ValueError(f"{action} needs {other} as well: whatever a drill breaks, it mends")
    return commands


async def _run(command: str) -> None:
    process = await asyncio.create_subprocess_shell(
        command,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        # Ctrl-C is for the drill, which still has to mend what it broke.
        start_new_session=True,
    )
    try:
        async with asyncio.timeout(_TIMEOUT_S):
            output, _ = await process.communicate()
    except TimeoutError:
        raise Unavailable(f"`{command}` did not end within {_TIMEOUT_S:g} s") from None
    finally:
        if process.returncode is None:
            # With what it has started: a shell alone would leave that behind.
            os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
    if process.returncode != 0:
        told = output.decode(errors="replace").strip()[-_ERROR_CHARACTERS_MAX:]
        raise Unavailable(f"`{command}` ended with status {process.returncode}: {told}")
