"""The five minutes of README.md, run as they stand, on other ports and in another folder."""

from __future__ import annotations

import asyncio
import os
import re
from pathlib import Path

import pytest

from tests.documented import NODES, ROOT, blocks_of, script_of


@pytest.mark.skipif(not (ROOT / ".venv/bin/quorate").exists(), reason="needs the environment of make setup")
async def test_the_first_five_minutes_work_as_they_are_written(tmp_path: Path) -> None:
    blocks = blocks_of("README.md", "Five minutes")
    assert [each.kind for each in blocks] == ["sh", "sh", "python", "python", "sh", "sh", "sh"]
    process = await asyncio.create_subprocess_exec(
        *("bash", "-c", script_of(blocks, tmp_path) + "\ntrap - EXIT"),
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
