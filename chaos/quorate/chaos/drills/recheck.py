"""The checks once more, over the history of a drill: by others, or because the drill itself was killed.

The history alone says what clients did and were told. What the log holds in the end is taken from the last
reader in it, who read everything when nobody wrote any more. A drill that was killed has no such reader; then
the cluster has to be asked, once it is whole. Files of replicas are beyond either.
"""

from __future__ import annotations

import os

from quorate.chaos.checks.check_all import check_all
from quorate.chaos.checks.verdict import Verdict
from quorate.chaos.history.history import History
from quorate.chaos.history.ledger_file import LedgerDamaged, read_ledger
from quorate.chaos.live.final_state import collect, seen_by_readers
from quorate.chaos.live.reach import Reach
from quorate.chaos.report.file_names import HISTORY_FILE
from quorate.errors import InvalidRequest

__all__ = ["NoLastReader", "recheck", "recheck_live"]


class NoLastReader(InvalidRequest):
    """The history alone does not say what the log holds."""


def recheck(directory: str) -> list[Verdict]:
    """``directory``: of a report."""
    history = _history(directory)
    final = seen_by_readers(history)
    if not final.partitions:
        raise NoLastReader(
            f"{directory}/{HISTORY_FILE}: nobody has read all at its end, so the cluster has to be asked",
            path=directory,
        )
    return check_all(history, final)


async def recheck_live(directory: str, bootstrap: str) -> list[Verdict]:
    """The cluster runs, is whole or becomes so, and nobody writes to the drill's topics."""
    history = _history(directory)
    topics = sorted({sent.partition.topic for sent in history.sent})
    return check_all(history, await collect(Reach(bootstrap=bootstrap), history, topics))


def _history(directory: str) -> History:
    path = f"{directory}/{HISTORY_FILE}"
    if not os.path.exists(path):
        raise InvalidRequest(f"{directory} holds no report of a drill: there is no {HISTORY_FILE}", path=path)
    try:
        return read_ledger(path)
    except LedgerDamaged as error:
        raise InvalidRequest(str(error), path=path) from error
