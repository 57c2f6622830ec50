"""Writes the alert rules as an object that the Prometheus operator reads.

python -m deploy.observability.prometheus_rule           # writes it
python -m deploy.observability.prometheus_rule --check   # fails if it is not what it would write

The rules themselves are in one place, as Prometheus reads them: prometheus/rules. kustomize cannot put a file
into a field of an object, so the object is a file of its own.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Final

import yaml

__all__ = ["TARGET", "main", "written"]

_RULES: Final = Path(__file__).parent / "prometheus" / "rules"
TARGET: Final = _RULES.with_name("prometheus-rule.yaml")
_HEAD: Final = "# Written by `python -m deploy.observability.prometheus_rule` from rules/. Do not edit.\n"
#: longer than any line: nobody edits this
_WIDTH: Final = 1_000


def written() -> str:
    groups = [
        group
        for path in sorted(_RULES.glob("*.yaml"))
        for group in yaml.safe_load(path.read_text(encoding="utf-8"))["groups"]
    ]
    document = {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {"name": "quorate"},
        "spec": {"groups": groups},
    }
    return _HEAD + yaml.safe_dump(document, sort_keys=False, width=_WIDTH)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="deploy.observability.prometheus_rule", description=__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing; fail if something would change")
    is_check = parser.parse_args(arguments).check
    text = written()
    if TARGET.exists() and TARGET.read_text(encoding="utf-8") == text:
        return 0
    if is_check:
        print(f"{TARGET.name} is not current")
        print("to write it: python -m deploy.observability.prometheus_rule")
        return 1
    TARGET.write_text(text, encoding="utf-8")
    print(f"{TARGET.name} written")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
