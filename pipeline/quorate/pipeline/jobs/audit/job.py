"""``quorate pipeline run audit``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Literal, NamedTuple

from quorate.errors import InvalidRequest, UnknownTopicOrPartition
from quorate.pipeline.jobs.archive.reading import check_is_archive, read_archive
from quorate.pipeline.jobs.audit.comparison import PROMISED, AuditReport, compare
from quorate.pipeline.jobs.audit.ledger import LOG_COLUMNS, Ledger, read_ledger
from quorate.pipeline.jobs.audit.reading import Teller
from quorate.pipeline.jobs.config.audit import AuditConfig, LogFrom
from quorate.pipeline.jobs.config.base import StoreFormat
from quorate.pipeline.jobs.reading import read_whole
from quorate.pipeline.jobs.session import open_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["audit", "run"]


def run(config: AuditConfig, tell: Callable[[str], None] | None = None) -> AuditReport:
    if config.log_from is LogFrom.ARCHIVE:
        assert config.path is not None
        check_is_archive(config.path, StoreFormat.PARQUET)
    return audit(open_session("audit", config, tell=tell), config, tell)


def audit(spark: SparkSession, config: AuditConfig, tell: Callable[[str], None] | None = None) -> AuditReport:
    """Nobody writes to the drill's topics any more. ``tell`` hears how it goes."""
    ledger = read_ledger(spark, config.ledger)
    log = _log(spark, config, ledger)
    unread = _promised_places(ledger) - log.starts.keys()
    if unread or not log.starts:
        which = ", ".join(f"{topic}-{partition}" for topic, partition in sorted(unread)) or "anything"
        raise InvalidRequest(
            f"{config.ledger}: nobody has read {which} to its end, so ask the cluster: --log cluster",
            path=config.ledger,
        )
    return compare(
        ledger.sent,
        log.rows,
        log.starts,
        examples_max=config.examples,
        log_rows=log.row_count,
        teller=None if tell is None else Teller(tell, config.progress_interval_ms / 1000),
    )


def _promised_places(ledger: Ledger) -> set[tuple[str, int]]:
    """Partitions that have to hold something: one that is not looked at would pass for whole."""
    places = ledger.sent.where(PROMISED).select("topic", "partition").distinct().collect()
    return {(row["topic"], row["partition"]) for row in places}


class _Log(NamedTuple):
    rows: DataFrame
    #: by topic and partition: where it begins
    starts: Mapping[tuple[str, int], int]
    #: how many rows there are, about: offsets may be missing; None: nobody has counted them
    row_count: int | None


def _log(spark: SparkSession, config: AuditConfig, ledger: Ledger) -> _Log:
    if config.log_from is LogFrom.HISTORY:
        return _Log(ledger.read, ledger.read_from, None)
    topics = ledger.topics
    if config.log_from is LogFrom.ARCHIVE:
        assert config.path is not None
        archive = read_archive(spark, config.path, StoreFormat.PARQUET).select(*LOG_COLUMNS)
        frame = archive.where(archive["topic"].isin(topics))
        places = ledger.sent.select("topic", "partition").distinct().collect()
        return _Log(frame, {(row["topic"], row["partition"]): 0 for row in places}, None)
    try:
        starts = _offsets(config.bootstrap_servers, topics, "earliest")
        ends = _offsets(config.bootstrap_servers, topics, "latest")
    except UnknownTopicOrPartition as error:
        raise InvalidRequest(
            f"{error.message}: a drill removes its topics when it ends. What its last reader has found is in "
            f"the ledger: --log history",
            path=config.ledger,
        ) from error
    rows = read_whole(spark, config, topics).select(*LOG_COLUMNS)
    return _Log(rows, starts, sum(max(0, end - starts.get(place, 0)) for place, end in ends.items()))


def _offsets(
    bootstrap: str, topics: list[str], at: Literal["earliest", "latest"]
) -> dict[tuple[str, int], int]:
    from quorate.client import Admin

    with Admin(bootstrap) as admin:
        return {
            (place.topic, place.partition): listed.offset or 0
            for topic in topics
            for place, listed in admin.list_offsets(topic, at).items()
        }
