"""What grpcio logs as an error and is none.

A client may go, or give up at its deadline, in the very moment in which its answer is sent. grpcio then logs
an error with a traceback through its core (github.com/grpc/grpc/pull/32551): whoever watches a broker's log
for errors would be called for nothing each time a client is killed.
"""

from __future__ import annotations

import logging
from typing import Final

__all__ = ["quieten_grpcio"]

_LOGGER: Final = "grpc._cython.cygrpc"
_CLIENT_IS_GONE: Final = "ExecuteBatchError raised in core"


class _Quieten(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        if not record.getMessage().startswith(_CLIENT_IS_GONE):
            return True
        record.levelno, record.levelname = logging.DEBUG, logging.getLevelName(logging.DEBUG)
        return logging.getLogger(record.name).isEnabledFor(logging.DEBUG)


_QUIETEN: Final = _Quieten()


def quieten_grpcio() -> None:
    """For a process that serves. Again does nothing."""
    logging.getLogger(_LOGGER).addFilter(_QUIETEN)
