"""What a start does not wait for: modules that take long to import, and that nobody needs yet."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Final

import pytest

#: prints what of its arguments is imported by then
_WHICH: Final = (
    "; import json, sys; print(json.dumps([each for each in sys.argv[1:] if each in sys.modules]))"
)

_UP_UNTIL_NODES_START: Final = (
    "from quorate.core.plain_structlog import import_plain_structlog; import_plain_structlog(); "
    "import quorate.console.command_line, quorate.console.local_clusters"
)
_NODE: Final = (
    "from quorate.core.plain_structlog import import_plain_structlog; import_plain_structlog(); "
    "import quorate.console.command_line, quorate.node.process, quorate.rpc.lean.transport"
)


def imported(code: str, *names: str) -> list[str]:
    ran = subprocess.run(
        [sys.executable, "-c", code + _WHICH, *names], capture_output=True, text=True, check=True, timeout=60
    )
    found: list[str] = json.loads(ran.stdout)
    return found


@pytest.mark.parametrize(
    ("code", "names"),
    [
        (
            _UP_UNTIL_NODES_START,
            ("grpc", "google.protobuf", "quorate.broker.broker", "quorate.client", "rich"),
        ),
        (_NODE, ("rich", "pygments", "grpc", "quorate.client", "quorate.chaos")),
    ],
    ids=["up", "node"],
)
def test_start_does_not_wait_for_what_it_does_not_use(code: str, names: tuple[str, ...]) -> None:
    assert imported(code, *names, "structlog") == ["structlog"]


def test_rich_is_there_for_whoever_imports_it_after_structlog() -> None:
    assert imported(f"{_NODE}; import rich.table", "rich.table") == ["rich.table"]
