"""What a record costs the client itself: processor time, in nanoseconds, without a network or a broker.

    python -m bench.client_path                        the compiled codec in turns with the pure one
    python -m bench.client_path --against ../before    in turns with another checkout as well, built there

Records of 100 bytes, 6 partitions. Each round is a process of its own, and the contenders take turns.
Processor time is what other work on the machine disturbs least; it still counts caches that others have
emptied, so the best round is shown beside the median.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.table import Table

from quorate.core.records import CODEC

ROOT: Final = Path(__file__).resolve().parents[2]
WORKER: Final = Path(__file__).with_name("worker.py")
PACKAGES: Final = tuple(sorted(path.parent.name for path in ROOT.glob("*/quorate")))


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench.client_path", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--thousands", type=int, default=200, help="of records in each work of a round")
    parser.add_argument("--against", type=Path, help="the root of another checkout, whose codec is built")
    arguments = parser.parse_args()
    contenders = {CODEC: _environment(ROOT), "pure": _environment(ROOT) | {"QUORATE_CODEC": "pure"}}
    if arguments.against is not None:
        contenders[arguments.against.name] = _environment(arguments.against.resolve())
    rounds: dict[str, list[dict[str, float]]] = {name: [] for name in contenders}
    for _ in range(arguments.rounds):
        for name, environment in contenders.items():
            rounds[name].append(_round(environment, arguments.thousands))
    _show(rounds)


def _environment(root: Path) -> dict[str, str]:
    # In front of what is installed: there it finds this checkout.
    return os.environ | {"PYTHONPATH": os.pathsep.join(str(root / package) for package in PACKAGES)}


def _round(environment: dict[str, str], thousands: int) -> dict[str, float]:
    done = subprocess.run(
        [sys.executable, str(WORKER), str(thousands)],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    found: dict[str, float] = json.loads(done.stdout)
    return found


def _show(rounds: dict[str, list[dict[str, float]]]) -> None:
    table = Table(title="nanoseconds of processor time a record: median (best)", title_justify="left")
    table.add_column("work")
    for name in rounds:
        table.add_column(name, justify="right")
    for work in next(iter(rounds.values()))[0]:
        cells = []
        for figures in rounds.values():
            found = [each[work] for each in figures]
            cells.append(f"{statistics.median(found):,.0f} ({min(found):,.0f})")
        table.add_row(work, *cells)
    Console(width=None if sys.stdout.isatty() else 120).print(table)


if __name__ == "__main__":
    main()
