"""The entry point. It imports nothing at first, so that Ctrl-C while the rest is imported is caught too."""

from __future__ import annotations

import sys
from collections.abc import Sequence

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns its exit status (the installed script exits with it)."""
    try:
        from quorate.console.command_line import run

        return run(arguments)
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
