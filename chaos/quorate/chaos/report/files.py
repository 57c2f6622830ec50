"""The report directory."""

from __future__ import annotations

import json
import os
from typing import Any, Final

from quorate.chaos.report.page import report_page
from quorate.chaos.report.run_report import RunReport
from quorate.chaos.report.verdicts_file import verdicts_text

__all__ = ["HISTORY_FILE", "PAGE_FILE", "VERDICTS_FILE", "write_report", "write_skipped"]

PAGE_FILE: Final = "report.html"
VERDICTS_FILE: Final = "verdicts.json"
#: every operation of every client; written while the drill runs
HISTORY_FILE: Final = "history.jsonl"


def write_report(report: RunReport, directory: str) -> None:
    """Beside the history, which is there already."""
    for name, content in ((PAGE_FILE, report_page(report)), (VERDICTS_FILE, verdicts_text(report))):
        with open(f"{directory}/{name}", "w", encoding="utf-8") as file:
            file.write(content)


def write_skipped(drill: str, seed: int, reason: str, directory: str) -> dict[str, Any]:
    """Of a drill that could not be run: verdicts.json says so, and is returned."""
    document = {"drill": drill, "seed": seed, "skipped": reason}
    os.makedirs(directory, exist_ok=True)
    with open(f"{directory}/{VERDICTS_FILE}", "w", encoding="utf-8") as file:
        file.write(json.dumps(document, indent=2) + "\n")
    return document
