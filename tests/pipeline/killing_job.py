"""Runs the command line, and kills itself and all it has started, as `kill -9` does, at a chosen place.

    python -m tests.pipeline.killing_job MODULE:CLASS.METHOD:N pipeline run archive …

kills before the N-th call of the method. A job is then in the middle of something, on purpose and every time.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

from quorate.console.main import main
from tests.pipeline.killing import kill_own_session

__all__: list[str] = []


def _arm(place: str) -> None:
    module_name, path, count_text = place.split(":")
    owner_name, method_name = path.split(".")
    owner: Any = getattr(import_module(module_name), owner_name)
    method = getattr(owner, method_name)
    left = int(count_text)

    def counted(*args: Any, **kwargs: Any) -> Any:
        nonlocal left
        left -= 1
        if left == 0:
            kill_own_session()
        return method(*args, **kwargs)

    setattr(owner, method_name, counted)


if __name__ == "__main__":
    _arm(sys.argv[1])
    sys.exit(main(sys.argv[2:]))
