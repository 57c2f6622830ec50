"""Lets promtool check the alert rules, and run their tests; and checks that what is written is current.

promtool is Prometheus's own: from the system, or built by `make check` where Go is there. Elsewhere this says
so, and ends with the status that means "skipped", a failure where CI is set; what needs no promtool is among
the unit tests.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
TOOLS: Final = ROOT / ".tools" / "bin"
RULES: Final = ROOT / "deploy" / "observability" / "prometheus" / "rules"
TESTS: Final = RULES.parent / "rules_tests"
#: as tools/check.py understands it
SKIPPED: Final = 77


def find_tool(name: str) -> str | None:
    return shutil.which(name, path=f"{TOOLS}{os.pathsep}{os.environ.get('PATH', '')}")


def main() -> int:
    for written in ("deploy.observability.dashboards", "deploy.observability.prometheus_rule"):
        if run(sys.executable, "-m", written, "--check"):
            return 1
    promtool = find_tool("promtool")
    if promtool is None:
        print("skipped: there is no promtool; Debian's package prometheus has it, and Go can build it")
        return SKIPPED
    rules, tests = (sorted(map(str, folder.glob("*.yaml"))) for folder in (RULES, TESTS))
    return run(promtool, "check", "rules", *rules) or run(promtool, "test", "rules", *tests)


def run(*command: str) -> int:
    return subprocess.run(command, cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
