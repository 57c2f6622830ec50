"""docs/operations/install.md, walked through: nodes with the files that it links to, and its commands."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from quorate.node.child import ChildNode
from quorate.node.cluster_layout import free_ports
from tests.documented import ROOT, blocks_of

_PORTS = ("9092", "9093", "9644")


@pytest.fixture
def here(tmp_path: Path) -> Callable[[str], str]:
    """Machines of the page are addresses of this one."""
    ports = dict(zip(_PORTS, free_ports(len(_PORTS)), strict=True))

    def translated(text: str) -> str:
        for written, port in ports.items():
            text = text.replace(f":{written}", f":{port}")
        return text.replace("10.0.", "127.77.").replace("/var/lib/quorate", str(tmp_path))

    return translated


def settings(text: str, number: int) -> dict[str, str]:
    """Of the node of this number, from the file of the first one."""
    found = {key: value.strip('"') for key, value in (line.split(" = ") for line in text.splitlines())}
    found["node.id"] = str(int(found["node.id"]) + number - 1)
    for key in ("listeners", "metrics.address"):
        found[key] = found[key].replace(".1:", f".{number}:")
    return found


@pytest.fixture
async def _cluster(tmp_path: Path, here: Callable[[str], str]) -> AsyncIterator[None]:
    blocks = blocks_of("docs/operations.md", "Run a cluster on several machines")
    controller, broker = (here(each.text) for each in blocks if each.kind == "toml")
    nodes = [settings(text, number) for text in (controller, broker) for number in (1, 2, 3)]
    for each in nodes:
        each["data.dir"] += f"/{each['node.id']}"
    async with AsyncExitStack() as started:
        # One after the other: a busy machine takes its time for each.
        for each in nodes:
            node = await ChildNode.start(each, log_file=str(tmp_path / f"{each['node.id']}.log"))
            started.push_async_callback(node.end)
        yield


@pytest.mark.skipif(shutil.which("curl") is None, reason="the page asks with curl")
@pytest.mark.usefixtures("_cluster")
async def test_cluster_of_the_page_is_right_by_the_commands_of_the_page(here: Callable[[str], str]) -> None:
    [block] = blocks_of("docs/operations/install.md", "Is it right?")
    process = await asyncio.create_subprocess_exec(
        *("bash", "-c", f"set -e -o pipefail\n{here(block.text)}"),
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env={**os.environ, "PATH": f"{ROOT}/.venv/bin:{os.environ['PATH']}"},
    )
    out, _ = await asyncio.wait_for(process.communicate(), 120)
    text = out.decode()
    assert process.returncode == 0, text
    assert {"healthy", "ready", "hello"} <= set(text.splitlines()), text
    assert text.count(" equal ") == 3, text
    assert text.count(" active ") == 3, text
