"""structlog, imported without rich: a third of what a node imports, for tracebacks that we turn off.

structlog imports rich, and rich imports pygments, wherever they are installed, to draw the tracebacks that
``quorate.core.logging`` asks it not to draw. Processes that are ours alone, and that people wait for, import
structlog by this first. It is no business of a library in somebody else's process, whose tracebacks may well
be rich's: so this is in the console, and not beside the logging.
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
