"""The ledger of the drills finds what it is there to find."""

from __future__ import annotations

import pytest

from quorate.chaos.quorum_drills.metadata_ledger import REGISTER, MetadataLedger
from quorate.core.ids import ProducerId, TopicId, TopicName
from quorate.metadata.delta import apply_batch
from quorate.metadata.image import EMPTY_IMAGE, MetadataImage
from quorate.metadata.records import config_record, producer_ids_record, topic_record

ID = TopicId("A" * 22)


def _image(value: int | None, *, name: str = "t", next_producer_id: int = 0) -> MetadataImage:
    """Of one topic with that value; None: without any."""
    records = [] if value is None else [topic_record(ID, TopicName(name))]
    if value:
        records.append(config_record(ID, REGISTER, str(value)))
    if next_producer_id:
        records.append(producer_ids_record(ProducerId(next_producer_id)))
    return apply_batch(EMPTY_IMAGE, records, 1)


def _written(acknowledged: int) -> MetadataLedger:
    ledger = MetadataLedger()
    entry = ledger.creating("t")
    ledger.created(entry, ID)
    for _ in range(acknowledged):
        ledger.wrote(entry, ledger.writing(entry))
    return ledger


def _findings(ledger: MetadataLedger, image: MetadataImage) -> str:
    ledger.compare(image, "there")
    return "\n".join(ledger.findings)


def test_metadata_that_agrees_has_no_findings() -> None:
    ledger = _written(2)
    ledger.got_block(0, 1_000)
    assert not _findings(ledger, _image(2, next_producer_id=1_000))


@pytest.mark.parametrize("value", [None, 1])
def test_acknowledged_change_that_is_not_there_is_lost(value: int | None) -> None:
    assert "lost" in _findings(_written(2), _image(value))


def test_value_that_nobody_wrote_is_invented() -> None:
    assert "invented" in _findings(_written(2), _image(3))


def test_topic_that_nobody_created_is_invented() -> None:
    assert "invented: nobody has created other" in _findings(MetadataLedger(), _image(0, name="other"))


def test_refused_creation_and_refused_value_must_not_be_seen() -> None:
    refused = MetadataLedger()
    refused.creation_refused(refused.creating("t"))
    assert "invented" in _findings(refused, _image(0))

    ledger = _written(1)
    ledger.write_refused(ledger.topics["t"], ledger.writing(ledger.topics["t"]))
    assert "invented" in _findings(ledger, _image(2))


@pytest.mark.parametrize("value", [1, 2])
def test_unknown_outcome_may_be_either(value: int) -> None:
    ledger = _written(1)
    ledger.writing(ledger.topics["t"])
    ledger.outcome_unknown(ledger.topics["t"])
    assert not _findings(ledger, _image(value))


def test_read_that_misses_what_was_acknowledged_before_it_began_is_stale() -> None:
    ledger = _written(2)
    ledger.read(ledger.topics["t"], 1, least_before=2, where="c")
    assert "lost" in "\n".join(ledger.findings)


def test_what_was_seen_once_must_be_seen_again() -> None:
    ledger = _written(1)
    entry = ledger.topics["t"]
    ledger.writing(entry)
    ledger.outcome_unknown(entry)
    ledger.read(entry, 2, least_before=1, where="c")
    assert not ledger.findings
    assert "lost" in _findings(ledger, _image(1))


def test_producer_ids_given_away_twice_or_forgotten_are_found() -> None:
    twice = MetadataLedger()
    twice.got_block(0, 1_000)
    twice.got_block(0, 1_000)
    assert "twice" in _findings(twice, _image(None, next_producer_id=1_000))

    forgotten = MetadataLedger()
    forgotten.got_block(0, 1_000)
    forgotten.got_block(1_000, 1_000)
    assert "lost" in _findings(forgotten, _image(None, next_producer_id=1_000))


def test_producer_ids_that_nobody_asked_for_are_found() -> None:
    ledger = MetadataLedger()
    ledger.got_block(0, 1_000)
    assert "asked for" in _findings(ledger, _image(None, next_producer_id=2_000))
