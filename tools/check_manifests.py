"""Builds every overlay of deploy/k8s with kustomize, and lets kubeconform check the outcome against the API.

Both tools and the schemas are made by `make check` where Go is there. Elsewhere this says so, and ends with
the status that means "skipped", which is a failure where CI is set.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
OVERLAYS: Final = ROOT / "deploy" / "k8s" / "overlays"
KUSTOMIZE: Final = ROOT / ".tools" / "bin" / "kustomize"
KUBECONFORM: Final = ROOT / ".tools" / "bin" / "kubeconform"
SCHEMAS: Final = ROOT / ".tools" / "manifest-schemas"
#: as tools/check.py understands it
SKIPPED: Final = 77


def main() -> int:
    missing = [path.name for path in (KUSTOMIZE, KUBECONFORM, SCHEMAS) if not path.exists()]
    if missing:
        print(f"skipped: no {', '.join(missing)} in .tools; `make check` makes them where Go is installed")
        return SKIPPED
    failures = [path.name for path in overlays() if not check(path)]
    return 1 if failures else 0


def overlays() -> list[Path]:
    return sorted(path.parent for path in OVERLAYS.glob("*/kustomization.yaml"))


def build(overlay: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([KUSTOMIZE, "build", str(overlay)], capture_output=True, text=True, check=False)


def check(overlay: Path) -> bool:
    built = build(overlay)
    if built.returncode != 0:
        print(f"{overlay.name}: {built.stderr.strip()}")
        return False
    command = [
        *(str(KUBECONFORM), "-strict", "-summary"),
        *("-schema-location", f"{SCHEMAS}/{{{{.ResourceKind}}}}{{{{.KindSuffix}}}}.json"),
    ]
    judged = subprocess.run(command, input=built.stdout, capture_output=True, text=True, check=False)
    print(f"{overlay.name}: {(judged.stdout + judged.stderr).strip()}")
    return judged.returncode == 0


if __name__ == "__main__":
    sys.exit(main())
