"""Fails when a source root holds quorate/__init__.py.

`quorate` is a namespace spread over the source roots. One such file would make its root the whole
package and hide every other root, but only for whoever has that root first on the path, so the damage shows
far from its cause.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent


def stray_files(root: Path) -> list[Path]:
    return sorted(path.relative_to(root) for path in root.glob("*/quorate/__init__.py*"))


def main() -> int:
    found = stray_files(ROOT)
    for path in found:
        print(f"{path} hides the rest of the namespace; remove it")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
