"""structlog, imported without rich: a third of what a node imports, for tracebacks that we turn off.

structlog imports rich, and rich imports pygments, wherever they are installed, to draw the tracebacks that
``quorate.core.logging`` asks it not to draw. Processes that people wait for, and that are ours alone or that
Spark starts for the data source, import structlog by this first. Other processes that Quorate is a library in
are none of our business: their tracebacks may well be rich's.
"""

from __future__ import annotations

import sys

__all__ = ["import_plain_structlog"]


def import_plain_structlog() -> None:
    """Nothing happens if either is imported already. rich itself can be imported afterwards, as ever."""
    if "structlog" in sys.modules or "rich" in sys.modules:
        return
    # By Python's own rules for None here: `import rich` says that there is none.
    sys.modules["rich"] = None  # type: ignore[assignment]  # typeshed knows modules only
    try:
        import structlog  # noqa: F401  # for what it does to sys.modules
    finally:
        del sys.modules["rich"]
