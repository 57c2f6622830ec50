"""The local cluster of ``--dir``, for commands that need it to be there."""

from __future__ import annotations

from quorate.console.advice import AdvisedError
from quorate.errors import InvalidRequest
from quorate.node.local_cluster import LocalCluster

__all__ = ["existing_cluster"]


def existing_cluster(directory: str) -> LocalCluster:
    """What is wrong with the directory is told with what to do about it; options are not what to correct."""
    try:
        return LocalCluster(directory)
    except InvalidRequest as error:
        raise AdvisedError(error, "") from error
