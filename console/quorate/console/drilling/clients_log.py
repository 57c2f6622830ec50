"""Where a drill's own clients log to: their events are no lines for somebody who watches its progress."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from io import TextIOWrapper
from typing import Final

from quorate.chaos.report.file_names import CLIENTS_LOG_FILE

__all__ = ["clients_log"]

_FORMAT: Final = "%(asctime)s %(levelname)s %(name)s %(message)s"


class _LateFile(logging.FileHandler):
    def _open(self) -> TextIOWrapper:
        os.makedirs(os.path.dirname(self.baseFilename), exist_ok=True)
        return super()._open()


@contextmanager
def clients_log(directory: str) -> Iterator[None]:
    """The file is made with the first line."""
    handler = _LateFile(f"{directory}/{CLIENTS_LOG_FILE}", encoding="utf-8", delay=True)
    handler.setFormatter(logging.Formatter(_FORMAT))
    logger = logging.getLogger("quorate")
    propagates, logger.propagate = logger.propagate, False
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.propagate = propagates
        handler.close()
