"""Consumer groups, measured: `python -m bench.groups rebalance | commits | failover`, each with --help.

Writes what was measured to build/bench. Exit status 1 when a bar is missed.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from bench.ending import end_on_sigterm
from bench.groups.works import WORKS, parser


def main(arguments: Sequence[str] | None = None) -> int:
    chosen = parser().parse_args(arguments)
    end_on_sigterm()
    figures = WORKS[chosen.work].run(chosen)
    return 1 if any(figure.passed is False for figure in figures) else 0


if __name__ == "__main__":
    sys.exit(main())
