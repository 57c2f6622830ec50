"""Where results are written, with what they were measured on."""

from __future__ import annotations

import json
import os
import platform
import time
from pathlib import Path
from typing import Any, Final

__all__ = ["OUTPUT", "write_json"]

OUTPUT: Final = Path(__file__).resolve().parents[2] / "build" / "bench"


def write_json(name: str, document: dict[str, Any]) -> Path:
    OUTPUT.mkdir(parents=True, exist_ok=True)
    path = OUTPUT / f"{name}.json"
    machine = {
        "machine": platform.platform(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "written_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }
    path.write_text(json.dumps({**machine, **document}, indent=2) + "\n")
    return path
