"""Drills against the containers that run, through the interface by which they drill any cluster."""

from __future__ import annotations

import json
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Any, Final

from deploy.test.commands import run, say
from deploy.test.image import ROOT

__all__ = ["AGENT", "attached_agent", "drill"]

AGENT: Final = ROOT / "examples/drill-agents/docker-compose-apart.toml"
#: one of each thing that can be done to a container: killed, paused, cut off, stopped
DRILLS: Final = ("leader-kill", "zombie-leader", "isolated-leader", "rolling-restart")
#: the project of the agent file, which brings containers of its own up
_ITS_PROJECT: Final = "quorate-drill"
_RECORDS_PER_S: Final = "200"
_TIMEOUT_S: Final = 1_200.0


async def drill(project: str) -> list[str]:
    """One round of each, and what it said; a promise that is broken fails the test."""
    verdicts = []
    with tempfile.TemporaryDirectory(prefix="quorate-drills-") as directory:
        path = f"{directory}/agent.toml"
        Path(path).write_text(attached_agent(AGENT.read_text(encoding="utf-8"), project), encoding="utf-8")
        for name in DRILLS:
            told = await run(
                *(sys.executable, "-m", "quorate.console.main", "drill", "run", name, "--agent", path),
                *("--minutes", "0", "--rate", _RECORDS_PER_S, "--report", f"{directory}/{name}"),
                timeout_s=_TIMEOUT_S,
            )
            verdicts += [line for line in told.splitlines() if line.startswith(f"{name}: ")][-1:] or [name]
            say("drill", verdicts[-1])
    return verdicts


def attached_agent(text: str, project: str) -> str:
    """The agent file without ``up`` and ``down``: it takes the containers of this project as they are."""
    document = tomllib.loads(text)
    commands = {
        action: command.replace(_ITS_PROJECT, project)
        for action, command in document["commands"].items()
        if action not in ("up", "down")
    }
    lines = [f"{key} = {_toml(document[key])}" for key in ("kind", "bootstrap")]
    for node in document["nodes"]:
        lines += ["[[nodes]]", *(f"{key} = {_toml(value)}" for key, value in node.items())]
    lines += ["[commands]", *(f"{action} = {_toml(command)}" for action, command in commands.items())]
    return "\n".join([*lines, ""])


def _toml(value: Any) -> str:
    """Strings, numbers and lists of them are written alike in both."""
    return json.dumps(value)
