"""The demonstration's proof must fail when there is something to find."""

from __future__ import annotations

from quorate.node.demo.ledger import Ledger, Proof, value_of


def written(ledger: Ledger, *numbers: int) -> list[tuple[int, bytes]]:
    """A log that holds these records from offset 0 on."""
    return [(offset, value_of(ledger.partition, number)) for offset, number in enumerate(numbers)]


def sent(count: int, *, acknowledged: int) -> Ledger:
    """Records 0 to count, of which the first were acknowledged from offset 0 on."""
    ledger = Ledger(partition=3)
    numbers = ledger.send(count)
    ledger.acknowledge(numbers[:acknowledged], range(acknowledged))
    return ledger


def faults(ledger: Ledger, log: list[tuple[int, bytes]]) -> list[str]:
    proof = Proof()
    proof.compare(ledger, log)
    return proof.faults


def test_log_that_holds_what_was_acknowledged_passes() -> None:
    ledger = sent(4, acknowledged=2)
    assert faults(ledger, written(ledger, 0, 1)) == []


def test_unanswered_records_may_be_there_and_are_counted() -> None:
    ledger = sent(4, acknowledged=2)
    proof = Proof()
    proof.compare(ledger, written(ledger, 0, 1, 3))
    assert proof.faults == []
    assert (proof.records, proof.unknown_found) == (3, 1)


def test_acknowledged_record_that_is_gone_is_found() -> None:
    ledger = sent(3, acknowledged=3)
    assert faults(ledger, written(ledger, 0, 1)) == ["partition 3: offset 2 was acknowledged and is gone"]
    assert len(faults(ledger, [])) == 3


def test_record_at_another_offset_is_found() -> None:
    ledger = sent(3, acknowledged=3)
    found = faults(ledger, written(ledger, 1, 0, 2))
    assert "partition 3: offset 0 was promised to record 0, not to 1" in found
    assert "partition 3: offset 1 was promised to record 1, not to 0" in found


def test_record_out_of_the_order_in_which_it_was_sent_is_found() -> None:
    ledger = sent(3, acknowledged=0)
    assert faults(ledger, written(ledger, 0, 2, 1)) == ["partition 3: record 1 comes after 2, at offset 2"]


def test_refused_record_that_is_there_is_found() -> None:
    ledger = sent(2, acknowledged=1)
    ledger.refuse([1])
    assert faults(ledger, written(ledger, 0)) == []
    assert faults(ledger, written(ledger, 0, 1)) == [
        "partition 3: record 1 was refused, and is there, at offset 1"
    ]


def test_acknowledged_record_beyond_its_place_is_found() -> None:
    ledger = Ledger(partition=3)
    ledger.acknowledge(ledger.send(1), [0])
    ledger.send(1)
    assert "not where it was promised" in faults(ledger, written(ledger, 0, 1, 0))[1]


def test_gap_between_offsets_is_found() -> None:
    ledger = sent(3, acknowledged=0)
    log = [(0, value_of(3, 0)), (2, value_of(3, 1))]
    assert faults(ledger, log) == ["partition 3: offset 1 is missing, 2 follows"]


def test_invented_torn_or_altered_records_are_found() -> None:
    ledger = sent(3, acknowledged=0)
    for value in (b"", b"3/1", value_of(3, 1)[:-1], value_of(3, 99), value_of(2, 1), b"3/x/y"):
        [fault] = faults(ledger, [(0, value)])
        assert "was never sent" in fault


def test_record_that_is_there_twice_is_found() -> None:
    ledger = sent(3, acknowledged=0)
    assert faults(ledger, written(ledger, 1, 1)) == [
        "partition 3: record 1 is there twice, again at offset 1"
    ]
