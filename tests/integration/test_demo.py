"""``make demo``: ends by itself, and with status 0 only because the proof held."""

from __future__ import annotations

import asyncio
import sys


async def test_demonstration_holds_and_tells_what_happened() -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "quorate.node.demo"), stdout=asyncio.subprocess.PIPE
    )
    out, _ = await asyncio.wait_for(process.communicate(), 120)
    text = out.decode()
    assert process.returncode == 0, text
    assert text.count("kill -9") == text.count("recover") == 3
    assert "The proof holds" in text
    assert "sound" in text
