"""The options of reads, as of Spark's Kafka source: a job moves by changing the name of its format."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from quorate.errors import InvalidConfig
from quorate.pipeline.source.losses import LossRules
from quorate.pipeline.source.options import BOOTSTRAP, Options, refusal

__all__ = ["EARLIEST", "LATEST", "Bound", "ReadOptions", "Selection", "read_options"]

#: what stands for them in offsets given as JSON
EARLIEST: Final = -2
LATEST: Final = -1

_SELECTIONS: Final = ("subscribe", "subscribePattern", "assign")
_BOTH: Final = frozenset(
    {
        *BOOTSTRAP,
        *_SELECTIONS,
        "startingOffsets",
        "startingOffsetsByTimestamp",
        "startingTimestamp",
        "startingOffsetsByTimestampStrategy",
        "failOnDataLoss",
        "dataLossAllowed",
        "minPartitions",
        "maxRecordsPerPartition",
        "includeHeaders",
        "groupIdPrefix",
        "kafka.group.id",
        "kafka.isolation.level",
        "kafka.client.rack",
        "kafka.request.timeout.ms",
        "kafkaConsumer.pollTimeoutMs",
    }
)
_BATCH: Final = _BOTH | {"endingOffsets", "endingOffsetsByTimestamp", "endingTimestamp"}
_STREAM: Final = _BOTH | {"minOffsetsPerTrigger", "maxOffsetsPerTrigger", "maxTriggerDelay"}


@dataclass(frozen=True, slots=True)
class Selection:
    """Which topics, or partitions; exactly one of these is set."""

    topics: tuple[str, ...] | None = None
    pattern: str | None = None
    assigned: Mapping[str, tuple[int, ...]] | None = None


@dataclass(frozen=True, slots=True)
class Bound:
    """Where reading begins, or ends. At most one of these is set; none: at `fallback`."""

    #: which option says so, for messages
    name: str
    fallback: Literal["earliest", "latest"]
    #: EARLIEST and LATEST stand for themselves
    offsets: Mapping[tuple[str, int], int] | None = None
    timestamps_ms: Mapping[tuple[str, int], int] | None = None
    timestamp_ms: int | None = None

    def may_be_latest(self, *, late_timestamp: str) -> bool:
        """Whether it moves with the end of the log, so that it is another one when it is looked up again."""
        if self.timestamp_ms is not None or self.timestamps_ms is not None:
            return late_timestamp == "latest"
        if self.offsets is not None:
            return LATEST in self.offsets.values()
        return self.fallback == "latest"


@dataclass(frozen=True, slots=True)
class ReadOptions:
    bootstrap: tuple[str, ...]
    selection: Selection
    starting: Bound
    #: batches only; a stream ends nowhere
    ending: Bound
    #: what to do where no record is as late as a starting timestamp: "latest" begins at the end
    late_timestamp: Literal["error", "latest"]
    losses: LossRules
    partitions_min: int | None
    partition_records_max: int | None
    rack: str | None
    request_timeout_s: float
    patience_s: float
    trigger_offsets_min: int | None = None
    trigger_offsets_max: int | None = None
    trigger_delay_s_max: float = 15 * 60


def read_options(given: Mapping[str, str], *, is_streaming: bool) -> ReadOptions:
    what = "streaming reads" if is_streaming else "batch reads"
    options = Options(given, _STREAM if is_streaming else _BATCH, what=what)
    # There are no transactions yet: both levels mean what is committed to the replicas.
    options.choice("kafka.isolation.level", ("read_committed", "read_uncommitted"), default="read_committed")
    # The schema has decided by now whether there are headers.
    options.flag("includeHeaders", default=False)
    if "kafka.group.id" in options and "groupIdPrefix" in options:
        raise refusal("groupIdPrefix", "kafka.group.id is given as well; give one of them")
    late = options.choice("startingOffsetsByTimestampStrategy", ("error", "latest"), default="error")
    minimum = options.optional_count("minOffsetsPerTrigger")
    maximum = options.optional_count("maxOffsetsPerTrigger")
    if minimum is not None and maximum is not None and minimum > maximum:
        raise refusal("minOffsetsPerTrigger", f"it is {minimum}, more than maxOffsetsPerTrigger={maximum}")
    delay_s = options.seconds("maxTriggerDelay")
    return ReadOptions(
        bootstrap=options.bootstrap(),
        selection=_selection(options),
        starting=_bound(options, "starting", "latest" if is_streaming else "earliest"),
        ending=_bound(options, "ending", "latest"),
        late_timestamp="latest" if late == "latest" else "error",
        losses=_losses(options),
        partitions_min=options.optional_count("minPartitions"),
        partition_records_max=options.optional_count("maxRecordsPerPartition"),
        rack=options.text("kafka.client.rack") or None,
        request_timeout_s=options.count("kafka.request.timeout.ms", default=30_000) / 1000,
        patience_s=options.count("kafkaConsumer.pollTimeoutMs", default=120_000) / 1000,
        trigger_offsets_min=minimum,
        trigger_offsets_max=maximum,
        trigger_delay_s_max=15 * 60 if delay_s is None else delay_s,
    )


def _losses(options: Options) -> LossRules:
    allowed = options.choice("dataLossAllowed", ("any", "retention"), default="any")
    return LossRules(
        is_strict=options.flag("failOnDataLoss", default=True), only_retention=allowed == "retention"
    )


def _selection(options: Options) -> Selection:
    given = [name for name in _SELECTIONS if name in options]
    if len(given) != 1:
        raise InvalidConfig(
            f"exactly one of {', '.join(_SELECTIONS)} says what is read; given are "
            f"{' and '.join(given) or 'none of them'}",
            key=given[-1] if given else _SELECTIONS[0],
        )
    if given[0] == "assign":
        assigned = options.assignment("assign")
        if not assigned or not all(assigned.values()):
            raise refusal("assign", "it names no partition")
        options.check_topics("assign", assigned)
        return Selection(assigned=assigned)
    text = options.text(given[0]) or ""
    if given[0] == "subscribePattern":
        if not text:
            raise refusal("subscribePattern", "it is empty")
        # Executors load this module, and need no patterns: by then it is known which topics there are.
        from quorate.pipeline.source.patterns import compiled

        compiled(text)
        return Selection(pattern=text)
    topics = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    if not topics:
        raise refusal("subscribe", "it names no topic")
    options.check_topics("subscribe", topics)
    return Selection(topics=topics)


def _bound(options: Options, side: str, fallback: Literal["earliest", "latest"]) -> Bound:
    """A timestamp for all counts before timestamps by partition, and these before offsets.

    What does not count is checked as well: it would be a surprise on the day on which the other is left out.
    """
    offsets = _offset_bound(options, f"{side}Offsets", fallback, is_start=side == "starting")
    name_of_times, name_of_time = f"{side}OffsetsByTimestamp", f"{side}Timestamp"
    times = options.by_partition(name_of_times)
    if times is not None and any(timestamp < 0 for timestamp in times.values()):
        raise refusal(name_of_times, f"it is {options.text(name_of_times)!r}; a timestamp is at least 0")
    timestamp = options.optional_count(name_of_time, at_least=0)
    if timestamp is not None:
        return Bound(name_of_time, fallback, timestamp_ms=timestamp)
    return offsets if times is None else Bound(name_of_times, fallback, timestamps_ms=times)


def _offset_bound(
    options: Options, name: str, fallback: Literal["earliest", "latest"], *, is_start: bool
) -> Bound:
    given = options.text(name)
    text = (fallback if given is None else given).strip()
    if text.lower() == "earliest" and is_start:
        return Bound(name, "earliest")
    if text.lower() == "latest":
        return Bound(name, "latest")
    if not text.startswith("{"):
        known = "earliest, latest or JSON" if is_start else "latest or JSON"
        raise refusal(name, f'it is {text!r}; {known} as {{"topic": {{"0": 23}}}} is expected')
    offsets = options.by_partition(name)
    assert offsets is not None
    if any(offset < (EARLIEST if is_start else LATEST) for offset in offsets.values()):
        raise refusal(name, f"it is {text!r}; an offset is at least 0, or {'-2 or -1' if is_start else '-1'}")
    return Bound(name, fallback, offsets=offsets)
