"""Which modules of the lean transport are compiled here."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from quorate.rpc.lean import link

__all__ = ["COMPILED", "FOLDER", "IS_COMPILED"]

FOLDER: Final = Path(link.__file__).parent
#: those that say what of theirs is C's; ``wire`` is inlined into them, and not compiled by itself
COMPILED: Final = sorted(path.stem for path in FOLDER.glob("*.pxd") if path.stem != "wire")
#: in this process
IS_COMPILED: Final = not link.__file__.endswith(".py")
