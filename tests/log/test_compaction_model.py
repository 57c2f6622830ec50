"""Any history of keyed batches, and passes at any time: what a reader gets is what the history says.

Batches are compressed or not, of idempotent producers or of nobody, in several leader epochs, and some are
cut off again. Passes have memory for few keys or for many, see much of the log or little, and may die at
any change of the disk. After every step the log is held to the model of ``compaction_harness``: exactly the
latest record of each key as far as it is clean, every record behind that, offsets and order unchanged, and
epochs and producers as the batches say.

`make test` runs the same few examples every time. For more, and other ones each time:

    QUORATE_MODEL_EXAMPLES=5000 pytest tests/log/test_compaction_model.py
"""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, Final

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from quorate.chaos.models.log.log_harness import producers_of
from quorate.chaos.sim.disk_faults import ProcessDied, fail_nth
from quorate.core.ids import LeaderEpoch, Offset, ProducerId
from quorate.core.records import Compression
from quorate.errors import DiskFull
from quorate.storage import StartKind
from tests.log.compaction_harness import KeyedLog, compacted_config, keyed

_EXAMPLES: Final = os.environ.get("QUORATE_MODEL_EXAMPLES")
_CONFIG: Final = compacted_config(segment_bytes=700, index_interval_bytes=150, delete_retention_ms=5_000)
_CHANGES: Final = ("pwrite", "pwritev", "truncate", "rename", "unlink", "fdatasync", "fsync_directory")

keys = st.sampled_from([b"", b"a", b"b", b"c", b"d", b"e", b"f", b"g" * 50])
values = st.none() | st.binary(max_size=40)
pairs = st.lists(st.tuples(keys | st.none(), values), min_size=1, max_size=6)
#: an offset: taken modulo what there is
places = st.integers(0, 1 << 16)
seeds = st.integers(0, 1 << 16)


class CompactionMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.keyed = KeyedLog(_CONFIG)
        #: exclusive: what no regular leader cuts off
        self.committed = 0
        self.buffer_bytes = 1 << 20
        #: no pass was interrupted since the last one that came to its end
        self.is_exact = True
        #: the log does not know for sure which tombstones are gone
        self.has_rotted = False

    def teardown(self) -> None:
        self.loop.close()

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self.loop.run_until_complete(work)

    @initialize()
    def start(self) -> None:
        self.run(self.keyed.open())
        self.lead()

    def lead(self) -> None:
        log = self.keyed.log
        log.become_leader(LeaderEpoch(log.latest_leader_epoch + 1))
        # At once something of the epoch: one without a batch is forgotten by a start.
        self.keyed.append(keyed((b"epoch", None)))

    @invariant()
    def check(self) -> None:
        if self.keyed.harness._log is None or not self.keyed.appended:
            return
        if self.is_exact:
            self.keyed.check()
        self.keyed.check_truth()

    # -- what happens to any log

    @rule(pairs=pairs, compression=st.sampled_from(Compression), producer_id=st.none() | st.integers(1, 3))
    def append(
        self,
        pairs: list[tuple[bytes | None, bytes | None]],
        compression: Compression,
        producer_id: int | None,
    ) -> None:
        producer = None
        if producer_id is not None:
            known = self.keyed.log._state.producers.get(ProducerId(producer_id))
            producer = (producer_id, 0 if known is None else known.epoch, known.next_sequence if known else 0)
        self.keyed.append(keyed(*pairs, compression=compression, producer=producer))

    @rule()
    def elect(self) -> None:
        """For having all that is committed, which the broker tells the log."""
        self.keyed.log.note_complete()
        assert not self.keyed.log.compacted.is_unknown
        self.lead()

    @rule()
    def commit(self) -> None:
        self.committed = self.keyed.log.log_end_offset

    @rule()
    def seal(self) -> None:
        self.run(self.keyed.seal())

    @rule(seconds=st.integers(1, 6))
    def pass_time(self, seconds: int) -> None:
        self.keyed.harness.clock.now_ms += seconds * 1000

    @rule(place=places, is_unclean=st.sampled_from((False, False, False, True)), may_be_elected=st.booleans())
    def truncate(self, place: int, is_unclean: bool, may_be_elected: bool) -> None:
        log = self.keyed.log
        first = 0 if is_unclean else self.committed
        offset = first + place % (log.log_end_offset - first + 1)
        is_complete = may_be_elected and not is_unclean
        is_cut = offset < min(log.compacted.superseded_below, log.log_end_offset)
        is_dropped = is_cut and not is_complete
        self.run(log.truncate_to(Offset(offset), is_complete=is_complete))
        if is_complete:
            assert log.log_end_offset >= self.committed
        assert log.log_end_offset <= offset
        assert not is_dropped or log.log_end_offset == 0
        self.keyed.appended = {
            at: record for at, record in self.keyed.appended.items() if at < log.log_end_offset
        }
        self.committed = min(self.committed, log.log_end_offset)
        self.is_exact |= is_dropped
        self.has_rotted &= not is_dropped
        self.lead()

    @rule(kind=st.sampled_from(("clean", "crash", "power")), seed=seeds, few_keys=st.booleans())
    def restart(self, kind: str, seed: int, few_keys: bool) -> None:
        keyed_log, disk = self.keyed, self.keyed.disk
        self.buffer_bytes = 4 * 180 if few_keys else 1 << 20
        producers = producers_of(keyed_log.log)
        if kind == "clean":
            assert self.run(keyed_log.log.close())
            start = StartKind.CLEAN
        elif kind == "crash":
            disk.crash()
            start = StartKind.PROCESS_CRASH
        else:
            self.run(keyed_log.log.flush())
            disk.power_loss(random.Random(seed))
            start = StartKind.LOSSY
        self.run(keyed_log.open(start, buffer_bytes=self.buffer_bytes))
        assert producers_of(keyed_log.log) == producers
        self.lead()

    @rule()
    def rot(self) -> None:
        """What says how far the log is compacted, while no process runs."""
        keyed_log = self.keyed
        assert self.run(keyed_log.log.close())
        path = keyed_log.harness.path("compaction-checkpoint")
        if keyed_log.disk.exists(path):
            keyed_log.disk.flip_bit(path, 8 * 50)
            self.is_exact, self.has_rotted = False, True
        self.run(keyed_log.open(StartKind.CLEAN, buffer_bytes=self.buffer_bytes))
        assert keyed_log.log.compacted.is_unknown is keyed_log.disk.exists(path)
        self.lead()

    # -- passes

    def _below(self, place: int) -> int:
        return self.committed if place % 3 else place % (self.committed + 1)

    def _compact(self, below: int) -> None:
        before = self.keyed.log._state.compaction
        try:
            report = self.run(self.keyed.compact(below=below))
        except (DiskFull, ProcessDied):
            # Unless it had not even begun.
            self.is_exact &= self.keyed.log._state.compaction == before
            raise
        if report is not None:
            compaction = self.keyed.log._state.compaction
            is_all = compaction.first_dirty_offset == compaction.compacted.superseded_below
            self.is_exact |= is_all and not self.has_rotted

    @rule(place=places)
    def compact(self, place: int) -> None:
        self._compact(self._below(place))

    @precondition(lambda self: self.committed > 3)
    @rule(change=st.integers(1, 60), power_loss=st.none() | seeds, written=st.integers(0, 100))
    def die_in_a_pass(self, change: int, power_loss: int | None, written: int) -> None:
        keyed_log, disk = self.keyed, self.keyed.disk
        self.run(keyed_log.seal())
        disk.fault_hook = fail_nth(change, ProcessDied(written=written), names=_CHANGES)
        with suppress(ProcessDied):
            self._compact(self.committed)
            disk.fault_hook = None
            return
        self.is_exact = False
        disk.fault_hook = None
        rng = None if power_loss is None else random.Random(power_loss)
        self.run(keyed_log.die(power_loss=power_loss is not None, rng=rng))
        self.lead()

    @rule(room=st.integers(0, 2_000))
    def compact_on_a_full_disk(self, room: int) -> None:
        disk = self.keyed.disk
        disk.capacity_bytes = disk.used_bytes + room
        with suppress(DiskFull):
            self._compact(self.committed)
        disk.capacity_bytes = None


CompactionMachine.TestCase.settings = settings(
    max_examples=int(_EXAMPLES or 60),
    stateful_step_count=40,
    derandomize=_EXAMPLES is None,
    deadline=None,
    print_blob=True,
    suppress_health_check=list(HealthCheck),
)
TestCompactionAgainstItsHistory = CompactionMachine.TestCase
