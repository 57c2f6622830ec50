"""The report directory."""

from __future__ import annotations

import json
import os
from typing import Any

from quorate.chaos.report.drill_report import DrillReport
from quorate.chaos.report.file_names import PAGE_FILE, VERDICTS_FILE
from quorate.chaos.report.page import report_page
from quorate.chaos.report.verdicts_file import verdicts_text

__all__ = ["write_report", "write_skipped"]


def write_report(report: DrillReport, directory: str) -> None:
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
