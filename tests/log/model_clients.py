"""What clients send to the log under test, and what a leader must answer them.

The answers are judged by the model's producers alone, in the order in which rules 50 to 52 have them.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from hypothesis import strategies as st

from quorate.chaos.models.log.log_harness import ProducerImage, batch
from quorate.core.records import Compression, parse_header
from quorate.errors import (
    DuplicateSequence,
    InvalidProducerEpoch,
    OutOfOrderSequence,
    QuorateError,
    UnknownProducer,
)
from quorate.storage import Appended
from tests.log.log_model import LogModel

__all__ = ["Answer", "Message", "Sender", "messages"]

_SEQUENCES: Final = 1 << 31


class Sender(NamedTuple):
    """An idempotent producer, and how what it sends follows from what it sent before."""

    producer_id: int
    epoch_step: int
    #: 0: the next; -1: the last batch again, -2: the one before it, and so on; positive: after a gap
    sequence_step: int

    def epoch(self, known: ProducerImage | None) -> int:
        return max(0, self.epoch_step + (0 if known is None else known.epoch))

    def sequence(self, known: ProducerImage | None, count: int) -> tuple[int, int]:
        """Base sequence and number of records."""
        if known is None or self.epoch(known) != known.epoch:
            return max(0, self.sequence_step), count
        if self.sequence_step >= 0:
            return (known.batches[-1][1] + 1 + self.sequence_step) % _SEQUENCES, count
        if -self.sequence_step <= len(known.batches):
            base, last, *_ = known.batches[self.sequence_step]
            return base, (last - base) % _SEQUENCES + 1
        return max(0, known.batches[0][0] - 1), count


class Message(NamedTuple):
    """A batch to be."""

    value_sizes: list[int]
    #: of each record; None: it carries no time. Repeated as often as there are records
    ages_ms: list[int | None]
    compression: Compression
    sender: Sender | None

    def encode(self, *, label: int, now_ms: int, producers: dict[int, ProducerImage]) -> bytes:
        """No two labels give the same batch."""
        sizes, producer = self.value_sizes, None
        if self.sender is not None:
            known = producers.get(self.sender.producer_id)
            sequence, count = self.sender.sequence(known, len(sizes))
            producer = (self.sender.producer_id, self.sender.epoch(known), sequence)
            sizes = (sizes * count)[:count]
        ages = (self.ages_ms * len(sizes))[: len(sizes)]
        return batch(
            *[b"%d" % label + b"." * size for size in sizes],
            timestamps=[-1 if age is None else now_ms - age for age in ages],
            producer=producer,
            compression=self.compression,
        )


messages = st.builds(
    Message,
    st.lists(st.integers(0, 150), min_size=1, max_size=4),
    st.lists(st.integers(-300, 2_000) | st.none(), min_size=1, max_size=3),
    st.sampled_from(Compression),
    st.none()
    | st.builds(
        Sender,
        st.integers(1, 2),
        st.sampled_from((0, 0, 0, 0, 1, -1)),
        st.sampled_from((0, 0, 0, 0, -1, -2, -5, -6, 1, _SEQUENCES - 3)),
    ),
)


class Answer(NamedTuple):
    """What a leader must answer: where the batch lies, or which error."""

    base_offset: int
    last_offset: int
    is_new: bool
    error: type[QuorateError] | None = None

    @classmethod
    def to(cls, sent: bytes, model: LogModel) -> Answer:
        header = parse_header(sent)
        end = model.log_end_offset
        append = cls(end, end + header.last_offset_delta, is_new=True)
        if header.producer_id < 0:
            return append
        known = model.producers.get(header.producer_id)
        if known is None:
            return append if header.base_sequence == 0 else cls.refusal(UnknownProducer)
        if header.producer_epoch < known.epoch:
            return cls.refusal(InvalidProducerEpoch)
        if header.producer_epoch > known.epoch:
            return append if header.base_sequence == 0 else cls.refusal(OutOfOrderSequence)
        ahead = (header.base_sequence - known.batches[-1][1] - 1) % _SEQUENCES
        if ahead == 0:
            return append
        for base_sequence, last_sequence, base_offset, last_offset, _ in known.batches:
            if (base_sequence, last_sequence) == (header.base_sequence, header.last_sequence):
                return cls(base_offset, last_offset, is_new=False)
        return cls.refusal(OutOfOrderSequence if ahead < _SEQUENCES // 2 else DuplicateSequence)

    @classmethod
    def refusal(cls, error: type[QuorateError]) -> Answer:
        return cls(-1, -1, is_new=False, error=error)

    def check(self, outcome: Appended | QuorateError) -> None:
        if isinstance(outcome, QuorateError):
            assert type(outcome) is self.error
        else:
            assert self.error is None
            assert (outcome.base_offset, outcome.last_offset) == (self.base_offset, self.last_offset)
            assert outcome.is_duplicate == (not self.is_new)
