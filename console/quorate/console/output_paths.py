"""Where a command will write, looked at before it begins: what cannot be written is no reason to begin.

Permissions alone do not tell. Root may do all that they forbid, and /proc forbids all that they permit, so a
file is made and removed again, and so are the directories that were missing.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path
from typing import NoReturn

import click

__all__ = ["check_directory", "refuse_path"]


def check_directory(path: str | Path, *, option: str) -> None:
    """It need not exist yet."""
    missing = _missing(Path(path).absolute())
    try:
        os.makedirs(path, exist_ok=True)
        with tempfile.TemporaryFile(dir=path):
            pass
    except OSError as error:
        refuse_path(path, error, option=option)
    finally:
        for each in missing:
            with contextlib.suppress(OSError):
                each.rmdir()


def refuse_path(path: str | Path, error: OSError, *, option: str) -> NoReturn:
    raise click.BadParameter(
        f"{path} cannot be written: {error.strerror}",
        ctx=click.get_current_context(silent=True),
        param_hint=option,
    ) from error


def _missing(path: Path) -> list[Path]:
    """Deepest first."""
    return [each for each in (path, *path.parents) if not each.exists()]
