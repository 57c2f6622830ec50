"""Kafka's numbers on this machine, by themselves: `python -m bench.peers.kafka [--rounds N] [WORK...]`."""

from __future__ import annotations

import argparse
import asyncio
import sys

from bench.cluster.comparison import compare
from bench.cluster.report import show_results
from bench.cluster.turns import take_turns
from bench.cluster.works import chosen_works
from bench.ending import end_on_sigterm
from bench.peers.kafka.installation import install
from bench.peers.kafka.peer import KafkaPeer


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.peers.kafka", description=__doc__)
    parser.add_argument("works", nargs="*", metavar="WORK")
    parser.add_argument("--rounds", type=int, default=1)
    arguments = parser.parse_args()
    end_on_sigterm()
    works = chosen_works(arguments.works)
    installation = install()
    measured, failures = asyncio.run(
        take_turns({"kafka": lambda: KafkaPeer(installation)}, works, arguments.rounds)
    )
    comparisons = [row for work in works for row in work.comparisons]
    show_results(f"Apache Kafka {installation.version}", compare(comparisons, {}, measured["kafka"]), "Kafka")
    for failure in failures:
        print(failure, file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
