"""Consumer groups, measured: `python -m bench.groups rebalance | commits | failover`, each with --help.

Writes what was measured to build/bench. Exit status 1 when a bar is missed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Final

from bench.ending import end_on_sigterm
from bench.groups import commits, failover, rebalance

_WORKS: Final = {"rebalance": rebalance, "commits": commits, "failover": failover}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.groups", description=__doc__)
    works = parser.add_subparsers(dest="work", required=True)
    for name, module in _WORKS.items():
        module.add_arguments(works.add_parser(name, description=module.__doc__))
    chosen = parser.parse_args(arguments)
    end_on_sigterm()
    return 0 if _WORKS[chosen.work].run(chosen) else 1


if __name__ == "__main__":
    sys.exit(main())
