"""The log of a Delta table on a local disk, made durable.

The package that writes it leaves that to the operating system. Spark notes a batch as done right after its
commit: were the power lost then, the note could survive, and the batch not.
"""

from __future__ import annotations

import json
import os
from urllib.parse import unquote

from quorate.pipeline.jobs.files import sync_directory, sync_file

__all__ = ["sync_commit"]


def sync_commit(path: str, version: int) -> None:
    """The files that this entry of the log adds, then the entry itself. ``path``: of the table."""
    log = f"{path}/_delta_log"
    entry = f"{log}/{version:020d}.json"
    with open(entry, encoding="utf-8") as lines:
        actions = [json.loads(line) for line in lines if line.strip()]
    added = [f"{path}/{unquote(each['add']['path'])}" for each in actions if "add" in each]
    for file in added:
        sync_file(file)
    for directory in {os.path.dirname(file) for file in added}:
        sync_directory(directory)
    sync_file(entry)
    sync_directory(log)
    sync_directory(path)
