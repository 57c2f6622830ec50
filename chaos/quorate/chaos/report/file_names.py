"""What the files of a report directory are called."""

from __future__ import annotations

from typing import Final

__all__ = ["CLIENTS_LOG_FILE", "GROUP_LOG_FILE", "HISTORY_FILE", "PAGE_FILE", "VERDICTS_FILE"]

PAGE_FILE: Final = "report.html"
VERDICTS_FILE: Final = "verdicts.json"
#: every operation of every client; written while the drill runs
HISTORY_FILE: Final = "history.jsonl"
#: what the clients of the drill itself logged, if they had anything to say
CLIENTS_LOG_FILE: Final = "clients.log"
#: what the processes of a consumer group logged
GROUP_LOG_FILE: Final = "group.log"
