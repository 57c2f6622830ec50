"""The audit finds what the checks of drills find, and nothing else: two implementations, one truth."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from quorate.chaos.checks import (
    aborted_read,
    duplicate,
    inconsistent_offsets,
    lost_write,
    phantom,
    send_order,
)
from quorate.chaos.checks.case import Case
from quorate.chaos.checks.check_all import Check
from quorate.chaos.checks.final_state import FinalState
from quorate.chaos.history.entries import ReadRecord, Sent
from quorate.chaos.history.history import History
from quorate.chaos.history.ledger_file import LedgerFile, read_ledger
from quorate.chaos.live.final_state import seen_by_readers
from quorate.core.ids import Offset, PartitionId, TopicName, TopicPartition
from quorate.errors import DeliveryTimedOut, InvalidRequest, NotEnoughReplicas, QuorateError
from quorate.pipeline.jobs.audit.comparison import AuditReport, FindingKind, compare
from quorate.pipeline.jobs.audit.job import audit
from quorate.pipeline.jobs.audit.ledger import read_ledger as read_as_tables
from quorate.pipeline.jobs.audit.reading import Teller
from quorate.pipeline.jobs.config import AuditConfig
from quorate.pipeline.jobs.config.audit import LogFrom
from quorate.testing import LocalCluster
from tests.pipeline.job_helpers import LONG
from tests.pipeline.job_process import JobProcess

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NewTopic = Callable[..., str]
Log = list[bytes]

#: what looks at the same thing on the other side
_CHECKS: Final[dict[FindingKind, Check]] = {
    FindingKind.LOST: lost_write.check,
    FindingKind.MISPLACED: inconsistent_offsets.check,
    FindingKind.DUPLICATED: duplicate.check,
    FindingKind.REORDERED: send_order.check,
    FindingKind.REFUSED: aborted_read.check,
    FindingKind.INVENTED: phantom.check,
}
_TOPICS: Final = 30


def _lose(log: Log, rng: random.Random) -> None:
    del log[-1 - rng.randrange(2)]


def _double(log: Log, rng: random.Random) -> None:
    log.append(rng.choice(log))


def _swap(log: Log, rng: random.Random) -> None:
    at = rng.randrange(len(log) - 3)
    log[at], log[at + 2] = log[at + 2], log[at]


def _invent(log: Log, rng: random.Random) -> None:
    log.append(b"from nowhere %d" % rng.randrange(10))


def _nothing(log: Log, rng: random.Random) -> None:
    """As it should be."""


_PLANTS: Final = (_lose, _double, _swap, _invent, _nothing)


def _one_topic(history: History, partition: TopicPartition, rng: random.Random) -> None:
    """Sends of two producers with every outcome, perhaps what must not be, and a reader of all of it."""
    log: Log = []
    refused: list[Sent] = []
    for number in range(12):
        sent = history.begin(f"p{number % 2}", partition, acks="1" if number == 5 else "all")
        if number in (3, 7):
            refusal: QuorateError = NotEnoughReplicas("too few") if number == 3 else DeliveryTimedOut("late")
            history.fail(sent, refusal)
            if number == 3:
                refused.append(sent)
            elif rng.random() < 0.5:
                log.append(sent.value)
            continue
        history.acknowledge(sent, Offset(len(log)))
        log.append(sent.value)
    rng.choice(_PLANTS)(log, rng)
    if rng.random() < 0.15:
        log.append(refused[0].value)
    reader = history.assign("reader", {partition: Offset(0)})
    history.read(reader, partition, [ReadRecord(Offset(at), value) for at, value in enumerate(log)])
    history.caught_up(reader)


def _found_by_checks(history: History) -> dict[FindingKind, set[str]]:
    """By kind: the topics in which the checks of drills find something."""
    found: dict[FindingKind, set[str]] = {kind: set() for kind in _CHECKS}
    for partition, final in seen_by_readers(history).partitions.items():
        case = Case(history, FinalState({partition: final}))
        for kind, check in _CHECKS.items():
            if not check(case).passed:
                found[kind].add(partition.topic)
    return found


def _found_by_audit(report: AuditReport) -> dict[FindingKind, set[str]]:
    return {
        each.kind: {example.split("-0: ")[0] for example in each.examples}
        for each in report.findings
        if each.kind in _CHECKS
    }


def test_audit_and_checks_agree_about_every_history(spark: SparkSession, tmp_path: Path) -> None:
    rng = random.Random(7)
    with LedgerFile.create(str(tmp_path / "history.jsonl")) as ledger:
        history = History(recorder=ledger)
        for number in range(_TOPICS):
            _one_topic(history, TopicPartition(TopicName(f"t{number}"), PartitionId(0)), rng)
    # Somebody was killed within a line: it is cut off.
    with open(tmp_path / "history.jsonl", "ab") as file:
        file.write(b'{"type":"send","ser')
    config = AuditConfig(ledger=str(tmp_path), log_from=LogFrom.HISTORY, examples=1000)
    report = audit(spark, config)

    expected = _found_by_checks(read_ledger(str(tmp_path / "history.jsonl")))
    assert all(expected.values()), "every kind is among what was planted, or this shows little"
    assert _found_by_audit(report) == expected
    assert report.sent == _TOPICS * 12
    assert not report.passed


def test_a_partition_that_nobody_has_read_to_its_end_does_not_pass_for_whole(
    spark: SparkSession, tmp_path: Path
) -> None:
    read, unread = (TopicPartition(TopicName("t"), PartitionId(number)) for number in range(2))
    with LedgerFile.create(str(tmp_path / "history.jsonl")) as ledger:
        history = History(recorder=ledger)
        _one_topic(history, read, random.Random(7))
        history.acknowledge(history.begin("p", unread), Offset(0))
    with pytest.raises(InvalidRequest, match="nobody has read t-1 to its end"):
        audit(spark, AuditConfig(ledger=str(tmp_path), log_from=LogFrom.HISTORY))


def test_the_log_of_a_cluster_is_held_against_the_ledger(
    spark: SparkSession, quorate_cluster: LocalCluster, new_topic: NewTopic, tmp_path: Path
) -> None:
    partition = TopicPartition(TopicName(new_topic()), PartitionId(1))
    with (
        LedgerFile.create(str(tmp_path / "history.jsonl")) as ledger,
        quorate_cluster.producer() as producer,
    ):
        history = History(recorder=ledger)
        for _ in range(50):
            sent = history.begin("p", partition)
            placed = producer.send(partition.topic, sent.value, partition=partition.partition).result()
            history.acknowledge(sent, placed.offset)
        lost = history.begin("p", partition)
        history.acknowledge(lost, Offset(50))
    config = AuditConfig(ledger=str(tmp_path), bootstrap_servers=quorate_cluster.bootstrap)
    report = audit(spark, config)

    assert {each.kind: each.count for each in report.findings if each.count} == {FindingKind.LOST: 1}
    assert repr(lost.value) in report.findings[0].examples[0]
    assert (report.sent, report.acknowledged, report.in_log) == (51, 51, 50)
    assert report.not_asked == 0


def test_topics_that_went_with_their_drill_are_known_to_its_last_reader(
    spark: SparkSession, quorate_cluster: LocalCluster, tmp_path: Path
) -> None:
    with LedgerFile.create(str(tmp_path / "history.jsonl")) as ledger:
        history = History(recorder=ledger)
        sent = history.begin("p", TopicPartition(TopicName("removed"), PartitionId(0)))
        history.acknowledge(sent, Offset(0))
    config = AuditConfig(ledger=str(tmp_path), bootstrap_servers=quorate_cluster.bootstrap)
    with pytest.raises(InvalidRequest, match=r"no topic removed.*a drill removes its topics.*--log history"):
        audit(spark, config)


def _acknowledged(spark: SparkSession, count: int) -> DataFrame:
    columns = (
        "topic string, partition int, value binary, producer string, number long, acks string, "
        "outcome string, offset long, error string, is_former boolean, is_current boolean"
    )
    rows = [("t", 0, b"v%d" % n, "p", n, "all", "acknowledged", n, None, False, True) for n in range(count)]
    return spark.createDataFrame(rows, columns)


def _log(spark: SparkSession, offsets: range) -> DataFrame:
    rows = [("t", 0, n, b"v%d" % n) for n in offsets]
    return spark.createDataFrame(rows, "topic string, partition int, offset long, value binary")


def test_what_lies_below_the_log_is_counted_as_not_asked_about(spark: SparkSession) -> None:
    sent = _acknowledged(spark, 50)
    report = compare(sent, _log(spark, range(30, 49)), {("t", 0): 30}, examples_max=3)
    assert {each.kind: each.count for each in report.findings if each.count} == {FindingKind.LOST: 1}
    assert (report.sent, report.acknowledged, report.not_asked, report.in_log) == (50, 20, 30, 19)


def test_progress_is_told_while_the_log_is_read_and_its_lag_goes_down(
    spark: SparkSession, tmp_path: Path
) -> None:
    from pyspark.sql import functions as f
    from pyspark.sql.types import BooleanType

    lines: list[str] = []
    was_told = tmp_path / "was-told"

    def tell(line: str) -> None:
        lines.append(line)
        if line.startswith("about the log") and not line.endswith(("lag 0", "lag 12")):
            was_told.touch()

    def is_read(offset: int) -> bool:
        deadline = time.monotonic() + 60
        while offset >= 6 and not was_told.exists():
            assert time.monotonic() < deadline, "nobody told of the first half"
            time.sleep(0.01)
        return True

    waits = f.udf(is_read, BooleanType(), useArrow=False).asNondeterministic()
    topic, value = f.lit("t").alias("topic"), f.expr("CAST(concat('v', id) AS binary) AS value")
    place = (f.lit(0).alias("partition"), f.col("id").alias("offset"))
    log = spark.range(0, 12, numPartitions=6).select(topic, *place, value).where(waits("offset"))
    compare(
        _acknowledged(spark, 12),
        log,
        {("t", 0): 0},
        examples_max=3,
        log_rows=12,
        teller=Teller(tell, every_s=0.05),
    )
    assert next(line for line in lines if line.startswith("the ledger: 12 rows")).endswith("/s, lag 12")
    assert lines[-1].startswith("the log: 12 rows")
    assert lines[-1].endswith("/s, lag 0")
    lags = [int(line.rpartition("lag ")[2]) for line in lines if line.startswith("about the log")]
    assert lags == sorted(lags, reverse=True)
    assert any(0 < lag < 12 for lag in lags), lines


def test_a_log_that_begins_behind_all_that_was_promised_does_not_pass(spark: SparkSession) -> None:
    with pytest.raises(InvalidRequest, match=r"t-0 begins at offset 50, behind all of the 50 .*no verdict"):
        compare(_acknowledged(spark, 50), _log(spark, range(0)), {("t", 0): 50}, examples_max=3)


@LONG
def test_killed_in_the_middle_it_says_the_same_when_it_is_run_again(
    quorate_cluster: LocalCluster, new_topic: NewTopic, tmp_path: Path
) -> None:
    partition = TopicPartition(TopicName(new_topic()), PartitionId(0))
    with (
        LedgerFile.create(str(tmp_path / "history.jsonl")) as ledger,
        quorate_cluster.producer() as producer,
    ):
        history = History(recorder=ledger)
        for _ in range(500):
            sent = history.begin("p", partition)
            placed = producer.send(partition.topic, sent.value, partition=0).result()
            history.acknowledge(sent, placed.offset)
        history.acknowledge(history.begin("p", partition), Offset(500))
    options = ["--ledger", str(tmp_path)]
    with JobProcess("audit", *options, bootstrap=quorate_cluster.bootstrap) as job:
        told = job.wait_for(lambda line: "the ledger: 501 rows" in line)
        assert told.endswith("/s, lag 500\n"), "the log is still to be read"
        job.kill()
    with JobProcess("audit", *options, bootstrap=quorate_cluster.bootstrap) as job:
        job.wait_for(lambda line: "the ledger: 501 rows" in line)
        job.ask_to_stop()
        # Neither of the two that are a verdict.
        assert job.wait() == 128 + signal.SIGTERM, job.lines
    assert "there is no verdict" in job.lines[-1]
    with JobProcess("audit", *options, bootstrap=quorate_cluster.bootstrap) as job:
        assert job.wait() == 1, job.lines
    assert "audit: FAILED; 501 sent, 501 acknowledged, 500 in the log" in job.lines[-1]
    assert [line.split()[0] for line in job.lines if " violated " in line] == ["lost"]


@pytest.mark.parametrize(
    ("content", "is_refused"),
    [
        pytest.param('{"type":"send"}\n{"type":"se', False, id="killed-within-the-last-line"),
        pytest.param('{"type":"se\n{"type":"send"}\n', True, id="another-line"),
        pytest.param('{"type":"se\n{"type":"send"}', True, id="another-line-and-the-last-only-lacks-its-end"),
        pytest.param('{"type":"se\n{"type":"sen', True, id="another-line-and-the-last"),
    ],
)
def test_only_the_last_line_of_a_ledger_may_be_torn(
    spark: SparkSession, tmp_path: Path, content: str, *, is_refused: bool
) -> None:
    (tmp_path / "history.jsonl").write_text('{"type": "ledger", "version": 1}\n' + content)
    with pytest.raises(InvalidRequest, match="damaged") if is_refused else nullcontext():
        read_as_tables(spark, str(tmp_path))


def test_what_is_no_ledger_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="there is no ledger"):
        audit(spark, AuditConfig(ledger=str(tmp_path / "none")))
    (tmp_path / "history.jsonl").write_text('{"some": "thing"}\n')
    with pytest.raises(InvalidRequest, match="is no ledger"):
        audit(spark, AuditConfig(ledger=str(tmp_path)))
