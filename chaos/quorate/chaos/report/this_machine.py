"""What a report says about the machine that it was made on."""

from __future__ import annotations

import os
import platform

__all__ = ["this_machine"]


def this_machine() -> dict[str, str]:
    return {
        "Python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()}, {os.cpu_count()} cores",
    }
