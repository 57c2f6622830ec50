"""Topics as streams.

Spark keeps one of these in a process of its own beside the driver, for as long as the query runs, and asks it
where the log ends and what a batch consists of; tasks get a copy that only reads.

Rules that are not obvious:

- What a batch consists of follows from its two positions alone: Spark plans a batch again after a restart,
  and it has to be the same batch.
- A partition that the older position does not know is new, and is read from its beginning. Where that is, a
  position says first: a batch ends there without reading any of it, and the next one reads on. Otherwise
  retention could move the beginning of a batch that is planned again, and nobody would notice.
- Where a query begins at `latest` is noted the same way: its first position is of no partition at all, and
  its first batch, an empty one, ends where reading begins. Spark asks for the first position anew until a
  batch is done, and after a kill the end of the log would be further on, behind records that nobody has read.
- Topics never shrink. A partition that was read and is not found, of a topic that is there, is one that
  whoever answered does not know yet: a position keeps it where it was. Left out, it would be new when it is
  found, and be read a second time.
- `initialOffset` is asked for again and again before the first batch is done: it is looked up once.
- `commit` comes a batch late and never for the last, and `stop` may not come at all: nothing depends on them.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Set
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from quorate.core.ids import TopicPartition
from quorate.pipeline.source.errors import DataLost
from quorate.pipeline.source.losses import tell_of_lost
from quorate.pipeline.source.positions import Positions
from quorate.pipeline.source.ranges import OffsetRange, cut, limited
from quorate.pipeline.source.read_options import ReadOptions
from quorate.pipeline.source.tasks import RangePartition, check_schema, read_range

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]  # it ships no types

    from quorate.pipeline.source.lookup import Lookup

__all__ = ["QuorateStreamReader"]

Document = dict[str, Any]


class QuorateStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        check_schema(schema)
        self._options = options
        self._schema = schema
        #: where a new query begins
        self._initial: Positions | None = None
        #: where the log ended when it was looked at last
        self._latest: Positions | None = None
        #: with the trigger AvailableNow: where the query ends
        self._target: Positions | None = None
        #: when a batch was last asked for that had something in it
        self._batch_at = time.monotonic()
        self._lookup_made: Lookup | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Tasks only read: what the driver knows stays with the driver."""
        return {"_options": self._options, "_schema": self._schema}

    # -- the driver: positions. Parameter names are Spark's, which passes them by name.

    def initialOffset(self) -> Document:  # noqa: N802 - Spark's name
        options = self._options
        if self._initial is None:
            found = self._lookup().partitions(is_new_query=True)
            offsets = self._lookup().resolve_start_of_stream(
                found,
                options.starting,
                late_timestamp=options.late_timestamp,
                fail_on_data_loss=options.losses.is_strict,
            )
            self._initial = Positions.of(offsets, found)
        is_moving = options.starting.may_be_latest(late_timestamp=options.late_timestamp)
        return {} if is_moving else self._initial.to_json()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        self._target = self._lookup().ends(is_new_query=True)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        options = self._options
        if options.trigger_offsets_max is not None:
            return ReadMaxRows(options.trigger_offsets_max)
        if options.trigger_offsets_min is not None:
            return ReadMinRows(options.trigger_offsets_min)
        return ReadAllAvailable()

    def latestOffset(self, start: Document, limit: ReadLimit) -> Document:  # noqa: N802 - Spark's name
        # Looked up for each question, however often it comes: Spark promises whoever calls
        # `processAllAvailable` that it returns when all is read that was there before.
        begin = Positions.from_json(start)
        target = self._target
        latest = self._lookup().ends(is_new_query=False) if target is None else self._from(begin, target)
        begin.check_ids(latest.ids)
        latest = self._with_what_is_not_known_yet(begin, latest)
        self._latest = latest
        if begin.offsets == latest.offsets:
            return start  # nothing moved, which is what most triggers of an idle query find
        new = self._beginnings(begin, latest)
        latest = self._without_what_went(begin, latest, new)
        starts = self._known_starts(begin, latest)
        # Before where it was read to only if the log was cut off: a query that may lose data goes back then,
        # so that it reads what is written there from now on.
        ends = {each: latest.offsets[each] for each in starts}
        waiting = sum(max(0, ends[each] - offset) for each, offset in starts.items())
        is_same_set = not new and starts.keys() == begin.offsets.keys()
        if is_same_set and (ends == starts or self._is_too_little(waiting, limit)):
            return start
        self._batch_at = time.monotonic()
        if isinstance(limit, ReadMaxRows):
            ends = limited(self._readable(starts, latest.ids), ends, limit.max_rows)
        return Positions({**ends, **new}, latest.ids).to_json()

    def reportLatestOffset(self) -> Document | None:  # noqa: N802 - Spark's name
        """For the query's progress, which shows the lag by it."""
        return None if self._latest is None else self._latest.to_json()

    def partitions(self, start: Document, end: Document) -> list[InputPartition]:
        begin, stop = Positions.from_json(start), Positions.from_json(end)
        begin.check_ids(stop.ids)
        # What is new begins where this position says, and has nothing to read yet.
        starts = {each: begin.offsets.get(each, offset) for each, offset in stop.offsets.items()}
        waiting = {each: offset for each, offset in starts.items() if offset < stop.offsets[each]}
        readable = self._readable(waiting, stop.ids)
        for each, offset in waiting.items():
            if readable[each] > offset:
                why = f"were deleted before they were read: the log begins at {readable[each]}"
                tell_of_lost(each, offset, min(readable[each], stop.offsets[each]), why)
        ranges = [
            OffsetRange(each.topic, stop.ids[each.topic], each.partition, readable[each], stop.offsets[each])
            for each in waiting
        ]
        options = self._options
        pieces = cut(ranges, pieces_min=options.partitions_min, records_max=options.partition_records_max)
        return [RangePartition(each) for each in pieces]

    def commit(self, end: Document) -> None:
        """Positions are in Spark's checkpoint; there is nothing of the query's in the cluster."""

    # -- executors

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, RangePartition)
        return read_range(partition, self._options, self._schema)

    # -- how

    def _lookup(self) -> Lookup:
        from quorate.pipeline.source.connection import connection_to
        from quorate.pipeline.source.lookup import Lookup

        if self._lookup_made is None:
            options = self._options
            connection = connection_to(options.bootstrap)
            self._lookup_made = Lookup(connection, options.selection, timeout_s=options.patience_s)
        return self._lookup_made

    def _from(self, begin: Positions, target: Positions) -> Positions:
        """The target of `AvailableNow`, but not before where the query is.

        It may lie there: who begins at the latest record looks for that a moment after the target. A log that
        was cut off looks the same, so its leader is asked whether it is one.
        """
        passed = [each for each, end in target.offsets.items() if end < begin.offsets.get(each, end)]
        if not passed:
            return target
        now = self._lookup().ends(is_new_query=False).offsets
        reached = {each: min(begin.offsets[each], now.get(each, target.offsets[each])) for each in passed}
        return Positions({**target.offsets, **reached}, target.ids)

    def _with_what_is_not_known_yet(self, begin: Positions, latest: Positions) -> Positions:
        """Whoever answered may know less than others before; and a target may be older than the beginning."""
        missing = begin.offsets.keys() - latest.offsets.keys()
        if not missing:
            return latest
        found = self._lookup().not_known_yet(missing)
        kept = Positions.of({each: begin.offsets[each] for each in found}, found)
        begin.check_ids(kept.ids)
        return Positions({**latest.offsets, **kept.offsets}, {**latest.ids, **kept.ids})

    def _beginnings(self, begin: Positions, latest: Positions) -> dict[TopicPartition, int]:
        """Of the partitions that are new: where they are read from."""
        new = {each: latest.ids[each.topic] for each in latest.offsets if each not in begin.offsets}
        found = self._lookup().beginnings(new)
        if begin.offsets or self._initial is None:
            return found
        # Nothing was noted yet: these are the first of a new query.
        self._initial.check_ids(latest.ids)
        return {each: self._initial.offsets.get(each, offset) for each, offset in found.items()}

    def _without_what_went(
        self, begin: Positions, latest: Positions, new: Mapping[TopicPartition, int]
    ) -> Positions:
        """Of what was found a moment ago, some may be gone before it was noted where it begins."""
        went = latest.offsets.keys() - begin.offsets.keys() - new.keys()
        if not went:
            return latest
        self._gone(went)
        kept = {each: offset for each, offset in latest.offsets.items() if each not in went}
        return Positions(kept, latest.ids)

    def _known_starts(self, begin: Positions, latest: Positions) -> dict[TopicPartition, int]:
        """Where to read on in each partition that was there before and still is."""
        gone = begin.offsets.keys() - latest.offsets.keys()
        if gone:
            self._gone(gone)
        kept = {each: offset for each, offset in begin.offsets.items() if each in latest.offsets}
        for each, offset in kept.items():
            if latest.offsets[each] < offset:
                self._went_back(each, f"{each} ends at {latest.offsets[each]}, and was read up to {offset}")
        return kept

    def _readable(
        self, starts: Mapping[TopicPartition, int], ids: Mapping[str, str]
    ) -> Mapping[TopicPartition, int]:
        """Where what is left begins, if something may be missing.

        Who is far behind would else have batch after batch of what is not there any more.
        """
        if not self._options.losses.allows_gaps:
            return starts
        beginnings = self._lookup().beginnings({each: ids[each.topic] for each in starts})
        return {each: max(offset, beginnings.get(each, offset)) for each, offset in starts.items()}

    def _gone(self, partitions: Set[TopicPartition]) -> None:
        unchosen = {each for each in partitions if not self._lookup().is_chosen(each)}
        if deleted := sorted(partitions - unchosen):
            self._went_back(deleted[0], f"{', '.join(map(str, deleted))}: it is not there any more")
        if unchosen:
            left, losses = sorted(unchosen), self._options.losses
            what = f"{', '.join(map(str, left))}: it was read before, and no option names it now"
            self._lost(left[0], what, losses.advice_on_gaps, is_allowed=losses.allows_gaps)

    def _went_back(self, partition: TopicPartition, what: str) -> None:
        """What was read before is of records that are not there any more."""
        losses = self._options.losses
        self._lost(partition, what, losses.advice_on_going_back, is_allowed=losses.allows_going_back)

    def _lost(self, partition: TopicPartition, what: str, advice: str, *, is_allowed: bool) -> None:
        if not is_allowed:
            raise DataLost(f"{what}. {advice}", topic=partition.topic, partition=partition.partition)
        from quorate.core.logging import get_logger

        get_logger(__name__).warning("data_lost", partition=str(partition), what=what)

    def _is_too_little(self, waiting: int, limit: ReadLimit) -> bool:
        """Whether to wait for more; never for ever, and not where nothing more will be looked at."""
        minimum = self._options.trigger_offsets_min
        if minimum is None or self._target is not None or isinstance(limit, ReadAllAvailable):
            return False
        has_time = time.monotonic() - self._batch_at < self._options.trigger_delay_s_max
        return waiting < minimum and has_time
