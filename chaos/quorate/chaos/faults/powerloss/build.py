"""The shim as a library: compiled where it is needed, kept in the user's cache, never shipped."""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from quorate.errors import UnsupportedOperation

__all__ = ["shim_library", "why_no_shim"]

_SOURCES: Final = Path(__file__).parent
_FLAGS: Final = ("-shared", "-fPIC", "-O2", "-std=gnu11", "-Wall", "-Wextra", "-fvisibility=hidden")


def why_no_shim() -> str | None:
    """None: this machine can have it."""
    if platform.system() != "Linux":
        return "the power-loss shim is for Linux"
    if shutil.which("cc") is None:
        return "the power-loss shim is compiled at its first use, and there is no C compiler (cc)"
    return None


def shim_library() -> str:
    """Its path. The name holds a digest of the sources: another version is another file."""
    sources = sorted(_SOURCES.glob("*.[ch]"))
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()[:16]
    library = _cache() / f"powerloss-{platform.machine()}-{digest}.so"
    if not library.exists():
        _compile(library)
    return str(library)


def _cache() -> Path:
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    cache = Path(home, "quorate")
    cache.mkdir(parents=True, exist_ok=True)
    return cache


def _compile(library: Path) -> None:
    reason = why_no_shim()
    if reason is not None:
        raise UnsupportedOperation(reason)
    # Several processes may come here at once: each writes a file of its own, the last rename wins.
    with tempfile.NamedTemporaryFile(dir=library.parent, suffix=".so", delete=False) as made:
        command = ["cc", *_FLAGS, "-o", made.name, str(_SOURCES / "shim.c"), "-lpthread"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603  # our own
    if done.returncode != 0:
        os.unlink(made.name)
        raise UnsupportedOperation(f"the power-loss shim does not compile here:\n{done.stderr}")
    os.replace(made.name, library)
