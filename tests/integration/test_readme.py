"""The five minutes of README.md, run as they stand, on other ports and in another folder."""

from __future__ import annotations

import asyncio
import os
import re
import socket
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SECTION = re.compile(r"^## Five minutes\n(.*?)^## ", re.MULTILINE | re.DOTALL)
BLOCK = re.compile(r"^```(sh|python)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NODES = 3


def consecutive_ports(count: int) -> int:
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


def script(directory: Path) -> str:
    """All blocks as one shell script: what one exports, the next ones have."""
    section = SECTION.search((ROOT / "README.md").read_text(encoding="utf-8"))
    assert section is not None
    blocks = BLOCK.findall(section[1])
    assert [kind for kind, _ in blocks] == ["sh", "sh", "python", "python", "sh", "sh", "sh"]
    first_port = consecutive_ports(NODES)
    lines = ["set -e", f"trap 'quorate down --dir {directory}/cluster || true' EXIT"]
    for number, (kind, text) in enumerate(blocks):
        for index in range(NODES):
            text = text.replace(f":{9092 + index}", f":{first_port + index}")
        text = text.replace("/tmp/quorate", f"{directory}/cluster").replace("make setup\n", "")
        text = text.replace("quorate up ", f"quorate up --port {first_port} ")
        if kind == "sh":
            lines.append(text)
        else:
            program = directory / f"block-{number}.py"
            program.write_text(text, encoding="utf-8")
            lines.append(f"{sys.executable} {program}")
    lines.append("trap - EXIT")
    return "\n".join(lines)


@pytest.mark.skipif(not (ROOT / ".venv/bin/quorate").exists(), reason="needs the environment of make setup")
async def test_the_first_five_minutes_work_as_they_are_written(tmp_path: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        *("bash", "-c", script(tmp_path)),
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    out, _ = await asyncio.wait_for(process.communicate(), 180)
    text = out.decode()
    assert process.returncode == 0, text
    assert {"first", "second", "third", "healthy"} <= set(text.splitlines()), text
    assert "somebody was first: the log ends at" in text
    assert "b'mine'" in text
    assert "group billing  state empty" in text
    digests = re.findall(r"^([0-9a-f]{64})  .*/node-(\d)/data/(orders-\d)", text, re.MULTILINE)
    assert len(digests) == NODES * 3
    assert len({(digest, log) for digest, _, log in digests}) == 3, text
