"""What each job is told. Nothing here needs Spark, so that mistakes are told before it is started."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from quorate.pipeline.jobs.config.aggregate import AggregateConfig
from quorate.pipeline.jobs.config.archive import ArchiveConfig
from quorate.pipeline.jobs.config.audit import AuditConfig
from quorate.pipeline.jobs.config.base import JobConfig
from quorate.pipeline.jobs.config.replay import ReplayConfig
from quorate.pipeline.jobs.config.table import TableConfig

__all__ = [
    "JOBS",
    "AggregateConfig",
    "ArchiveConfig",
    "AuditConfig",
    "JobConfig",
    "ReplayConfig",
    "TableConfig",
]

#: by the name of the job
JOBS: Final[Mapping[str, type[JobConfig]]] = {
    "archive": ArchiveConfig,
    "aggregate": AggregateConfig,
    "table": TableConfig,
    "replay": ReplayConfig,
    "audit": AuditConfig,
}
