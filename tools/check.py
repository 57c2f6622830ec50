"""Runs every static check at once and says what passed, or how to see a failure again.

With names as arguments, only those parts run; the pre-commit hooks call it so, which keeps the hooks and
`make check` one list. The whole has a time budget like every test suite: a check that people wait for is a
check that people skip. It is what it may take on two cores that have nothing else to do; a run that took
longer says so, and fails at twice as much, which is not the machine any more.

A part whose tools cannot be had on somebody's machine says so and is skipped. Where CI is set in the
environment nobody reads that, and what is left out would be left out for good: there it has failed.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parent.parent
BUDGET_SECONDS: Final = 60.0
#: the exit status of a part whose tools cannot be had here
SKIPPED: Final = 77
# Relative where it can be, so that a printed command can be pasted.
BIN: Final = os.path.relpath(Path(sys.executable).parent, ROOT)


class Part(NamedTuple):
    name: str
    what: str
    command: tuple[str, ...]


class Outcome(NamedTuple):
    part: Part
    passed: bool
    output: str
    seconds: float
    #: what it needs is not there, and it said so
    skipped: bool = False


# The slowest first: with two cores the others then run beside it.
PARTS: Final = (
    Part("types", "types", (f"{BIN}/mypy",)),
    Part("imports", "import rules", (f"{BIN}/lint-imports", "--no-logo")),
    Part("manifests", "manifests", (f"{BIN}/python", "tools/check_manifests.py")),
    Part("alerts", "alerts", (f"{BIN}/python", "tools/check_alerts.py")),
    Part("site", "documentation", (f"{BIN}/mkdocs", "build", "--strict")),
    Part("stubs", "generated stubs", (f"{BIN}/python", "tools/generate_protos.py", "--check")),
    Part("protos", "proto lint", (f"{BIN}/buf", "lint")),
    Part("format", "format", (f"{BIN}/ruff", "format", "--check")),
    Part("lint", "lint", (f"{BIN}/ruff", "check")),
    Part("namespace", "namespace", (f"{BIN}/python", "tools/check_namespace.py")),
)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "parts", nargs="*", metavar="PART", help="one of: " + ", ".join(p.name for p in PARTS)
    )
    names = parser.parse_args(arguments).parts
    unknown = sorted(set(names) - {part.name for part in PARTS})
    if unknown:
        parser.error(f"no such part: {', '.join(unknown)}")
    started = time.monotonic()
    outcomes = run_all([part for part in PARTS if not names or part.name in names])
    return conclude(outcomes, time.monotonic() - started)


def run_all(parts: Sequence[Part]) -> list[Outcome]:
    outcomes = []
    with ThreadPoolExecutor(max_workers=max(2, os.cpu_count() or 1)) as pool:
        for future in as_completed(pool.submit(run, part) for part in parts):
            outcome = future.result()
            report(outcome)
            outcomes.append(outcome)
    return outcomes


def run(part: Part) -> Outcome:
    started = time.monotonic()
    finished = subprocess.run(
        part.command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    skipped = finished.returncode == SKIPPED and not must_not_skip()
    passed = finished.returncode == 0 or skipped
    return Outcome(part, passed, finished.stdout, time.monotonic() - started, skipped)


def must_not_skip() -> bool:
    return os.environ.get("CI", "").lower() not in ("", "0", "false")


def report(outcome: Outcome) -> None:
    verdict = "skipped" if outcome.skipped else "ok" if outcome.passed else "FAILED"
    print(f"check: {outcome.part.what:<16} {verdict:<7} {outcome.seconds:5.1f} s", flush=True)
    if outcome.skipped:
        print(outcome.output.rstrip(), flush=True)
    if not outcome.passed:
        print(outcome.output.rstrip())
        print(f"to see this again: {' '.join(outcome.part.command)}\n", flush=True)


def conclude(outcomes: Sequence[Outcome], seconds: float) -> int:
    time_spent = f"{seconds:.0f} s of {BUDGET_SECONDS:.0f} s"
    failed = [outcome.part.what for outcome in outcomes if not outcome.passed]
    if failed:
        print(f"check failed: {', '.join(failed)} ({time_spent})")
        return 1
    if seconds > 2 * BUDGET_SECONDS:
        print(f"check failed: every part passed, but over its budget of time ({time_spent})")
        return 1
    remark = ", over its budget: the machine, or the checks?" if seconds > BUDGET_SECONDS else ""
    passed = ", ".join(outcome.part.what for outcome in outcomes if not outcome.skipped)
    skipped = [outcome.part.what for outcome in outcomes if outcome.skipped]
    left_out = f"; skipped: {', '.join(skipped)}" if skipped else ""
    print(f"check passed: {passed}{left_out} ({time_spent}{remark})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
