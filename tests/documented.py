"""What a page tells its readers to do, as a script: run on other ports and in another folder."""

from __future__ import annotations

import re
import socket
import sys
from pathlib import Path
from typing import Final, NamedTuple

__all__ = ["NODES", "ROOT", "Block", "blocks_of", "script_of"]

ROOT: Final = Path(__file__).parents[1]
#: of the clusters that pages start, from port 9092 on
NODES: Final = 3
_FIRST_PORT: Final = 9092
_BLOCK: Final = re.compile(r"^```(sh|python|toml)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Block(NamedTuple):
    #: sh, python or toml
    kind: str
    text: str


def blocks_of(page: str, heading: str) -> list[Block]:
    """All that a section shows of shell, Python and settings."""
    section = re.compile(rf"^## {re.escape(heading)}\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
    found = section.search((ROOT / page).read_text(encoding="utf-8"))
    assert found is not None, f"{page} has no section {heading}"
    return [Block(*each) for each in _BLOCK.findall(found[1])]


def script_of(blocks: list[Block], directory: Path) -> str:
    """One for the shell, of shell and Python, so what one block exports the next ones have.

    Everything in /tmp is in ``directory``, the cluster is in its folder ``quorate``, and it is stopped.
    """
    first_port = _consecutive_ports(NODES)
    lines = [
        "set -e",
        f"trap 'quorate down --dir {directory}/quorate || true' EXIT",
        f"export QUORATE_BOOTSTRAP=127.0.0.1:{first_port}",
    ]
    for number, (kind, text) in enumerate(blocks):
        for index in range(NODES):
            text = text.replace(f":{_FIRST_PORT + index}", f":{first_port + index}")
        text = text.replace("/tmp/", f"{directory}/").replace("make setup\n", "")
        text = text.replace("quorate up ", f"quorate up --port {first_port} ")
        if kind == "sh":
            lines.append(text)
        else:
            assert kind == "python", f"a block of {kind} is nothing to run"
            program = directory / f"block-{number}.py"
            program.write_text(text, encoding="utf-8")
            lines.append(f"{sys.executable} {program}")
    return "\n".join(lines)


def _consecutive_ports(count: int) -> int:
    """The first of so many that are free, outside the range of outgoing connections."""
    for first in range(20_000, 32_000, 50):
        probes = [socket.socket() for _ in range(count)]
        try:
            for index, probe in enumerate(probes):
                probe.bind(("127.0.0.1", first + index))
        except OSError:
            continue
        else:
            return first
        finally:
            for probe in probes:
                probe.close()
    raise AssertionError("no ports are free")
