"""How much memory a process holds."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["resident_bytes"]


def resident_bytes(process_id: int) -> int:
    """Linux's resident set: what lies in memory now, with the pages of files that it maps."""
    pages = int(Path(f"/proc/{process_id}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGESIZE")
