"""``make demo``: ends by itself, and with status 0 only because the proof held."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path


async def test_demonstration_holds_and_tells_what_happened(tmp_path: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "quorate.node.demo", "--seconds", "0.3"),
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    out, _ = await asyncio.wait_for(process.communicate(), 240)
    text = out.decode()
    assert process.returncode == 0, text
    for word in ("kill -9", "failover", "restart"):
        assert text.count(word) == 2, text
    assert "0 of them unclean" in text
    assert "the same bytes on every node" in text
    assert "The proof holds" in text
    assert os.listdir(tmp_path) == []
