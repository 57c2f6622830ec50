"""Writes the files that Grafana reads.

python -m deploy.observability.dashboards           # writes them
python -m deploy.observability.dashboards --check   # fails if they are not what it would write
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Final

from deploy.observability.dashboards import DASHBOARDS
from deploy.observability.dashboards.panels import written

FOLDER: Final = Path(__file__).parent.parent / "grafana" / "dashboards"


def contents() -> dict[Path, str]:
    return {
        FOLDER / f"{dashboard.name}.json": json.dumps(written(dashboard), indent=1, ensure_ascii=False) + "\n"
        for dashboard in DASHBOARDS
    }


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="deploy.observability.dashboards", description=__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing; fail if something would change")
    is_check = parser.parse_args(arguments).check
    wanted = contents()
    stale = [path for path, text in wanted.items() if not path.exists() or path.read_text() != text]
    stale += [path for path in FOLDER.glob("*.json") if path not in wanted]
    for path in stale:
        print(f"{path.name} is not current" if is_check else f"{path.name} written")
        if not is_check and path in wanted:
            path.write_text(wanted[path])
        elif not is_check:
            path.unlink()
    if stale and is_check:
        print("to write them: python -m deploy.observability.dashboards")
    return 1 if stale and is_check else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
