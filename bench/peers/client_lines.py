"""The client's side of `bench.peers.client_process`: a program around another system's client library.

It runs where that library is and nothing of ours, so this file needs the standard library alone. Each line on
either side is a JSON document:

    to a sender      [number, topic, partition, value]
    from a sender    [number, offset]                        acknowledged
                     [number, null, "why"]                   anything else: it may have been written
    from a reader    [[topic, partition, offset, value], ...]
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from typing import Any

__all__ = ["acknowledged", "failed", "read", "say"]


def say(document: Any) -> None:
    sys.stdout.write(json.dumps(document) + "\n")
    sys.stdout.flush()


def acknowledged(number: int, offset: int) -> None:
    say([number, offset])


def failed(number: int, why: object) -> None:
    say([number, None, str(why) or type(why).__name__])


def read(records: Iterable[tuple[str, int, int, bytes]]) -> None:
    say([[topic, partition, offset, value.decode("latin-1")] for topic, partition, offset, value in records])
