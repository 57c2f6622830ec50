"""Entries of a history as lines of JSON, and back.

Each entry has a line when it begins. Those that have an end, which may never come, have another line for it
with the same serial number. Values are written as text with one character for each byte: those of producers
are readable, and what a damaged disk shows a reader comes back as it was.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from quorate.chaos.history.entries import (
    Assignment,
    Commit,
    Entry,
    FaultWindow,
    Outcome,
    PartitionChange,
    Poll,
    ReadRecord,
    Sent,
    TopicDeletion,
    WatermarkSeen,
)
from quorate.core.ids import PartitionId, TopicName, TopicPartition

__all__ = ["apply_end", "decode_begin", "encode_begin", "encode_end", "encode_line"]

Line = Mapping[str, Any]

_BYTES_AS_TEXT: Final = "latin-1"
_ENCODER: Final = json.JSONEncoder(separators=(",", ":"), allow_nan=False)
_OF_PARTITION_CHANGE: Final = (
    "source",
    "topic_id",
    "leader",
    "leader_epoch",
    "partition_epoch",
    "isr",
    "elr",
    "at_s",
)


def encode_line(line: Line) -> bytes:
    return _ENCODER.encode(line).encode() + b"\n"


# -- to lines


def encode_begin(entry: Entry) -> Line:
    return _ENCODE_BEGIN[type(entry)](entry)


def encode_end(entry: Entry) -> Line:
    if isinstance(entry, Sent):
        return {
            "type": "sent",
            "serial": entry.serial,
            "at_s": entry.ended_s,
            "outcome": entry.outcome.value,
            "offset": entry.offset,
            "error": entry.error,
        }
    if isinstance(entry, Assignment):
        return {"type": "caught-up", "serial": entry.serial, "at_s": entry.caught_up_s}
    if isinstance(entry, Commit):
        return {
            "type": "committed",
            "serial": entry.serial,
            "at_s": entry.ended_s,
            "error": entry.error,
        }
    assert isinstance(entry, FaultWindow | TopicDeletion), "the others have no end of their own"
    kind = "healed" if isinstance(entry, FaultWindow) else "deleted"
    return {"type": kind, "serial": entry.serial, "at_s": entry.ended_s}


def _encode_send(sent: Sent) -> Line:
    return {
        "type": "send",
        "serial": sent.serial,
        "at_s": sent.begun_s,
        "producer": sent.producer,
        "number": sent.number,
        "partition": sent.partition,
        "acks": sent.acks,
        "value": sent.value.decode(_BYTES_AS_TEXT),
    }


def _encode_assign(assignment: Assignment) -> Line:
    return {
        "type": "assign",
        "serial": assignment.serial,
        "at_s": assignment.begun_s,
        "reader": assignment.reader,
        "starts": [[partition, start] for partition, start in assignment.starts.items()],
        "group": assignment.group,
        "member_epoch": assignment.member_epoch,
    }


def _encode_poll(poll: Poll) -> Line:
    return {
        "type": "poll",
        "serial": poll.serial,
        "at_s": poll.at_s,
        "assignment": poll.assignment.serial,
        "partition": poll.partition,
        "records": [[offset, value.decode(_BYTES_AS_TEXT)] for offset, value in poll.records],
    }


def _encode_commit(commit: Commit) -> Line:
    return {
        "type": "commit",
        "serial": commit.serial,
        "at_s": commit.begun_s,
        "assignment": commit.assignment.serial,
        "partition": commit.partition,
        "offset": commit.offset,
    }


def _encode_watermark(seen: WatermarkSeen) -> Line:
    return {
        "type": "watermark",
        "serial": seen.serial,
        "at_s": seen.ended_s,
        "asked_s": seen.begun_s,
        "partition": seen.partition,
        "high_watermark": seen.high_watermark,
        "log_start_offset": seen.log_start_offset,
    }


def _encode_change(change: PartitionChange) -> Line:
    line = {"type": "partition", "serial": change.serial, "partition": change.partition}
    return line | {name: getattr(change, name) for name in _OF_PARTITION_CHANGE}


def _encode_fault(fault: FaultWindow) -> Line:
    return {
        "type": "fault",
        "serial": fault.serial,
        "at_s": fault.begun_s,
        "kind": fault.kind,
        "target": fault.target,
    }


def _encode_deletion(deletion: TopicDeletion) -> Line:
    return {
        "type": "delete",
        "serial": deletion.serial,
        "at_s": deletion.begun_s,
        "topic": deletion.topic,
    }


_ENCODE_BEGIN: Final[Mapping[type[Entry], Callable[[Any], Line]]] = {
    Sent: _encode_send,
    Assignment: _encode_assign,
    Poll: _encode_poll,
    Commit: _encode_commit,
    WatermarkSeen: _encode_watermark,
    PartitionChange: _encode_change,
    FaultWindow: _encode_fault,
    TopicDeletion: _encode_deletion,
}


# -- and back


def decode_begin(line: Line, begun: Mapping[int, Entry]) -> Entry | None:
    """None: this line begins nothing. ``begun``: what began before, by serial number.

    A line that lacks something raises ``KeyError``, one with something else than is due there ``ValueError``
    or ``TypeError``.
    """
    decode = _DECODE_BEGIN.get(line["type"])
    return None if decode is None else decode(line, begun)


def apply_end(line: Line, begun: Mapping[int, Entry]) -> None:
    """The end of what began with an earlier line."""
    entry, kind = begun[line["serial"]], line["type"]
    if isinstance(entry, Sent) and kind == "sent" and entry.ended_s is None:
        entry.ended_s = line["at_s"]
        entry.outcome = Outcome(line["outcome"])
        entry.offset, entry.error = line["offset"], line["error"]
    elif isinstance(entry, Assignment) and kind == "caught-up":
        entry.caught_up_s = line["at_s"]
    elif isinstance(entry, Commit) and kind == "committed" and entry.ended_s is None:
        entry.ended_s, entry.error = line["at_s"], line["error"]
    elif (isinstance(entry, FaultWindow) and kind == "healed") or (
        isinstance(entry, TopicDeletion) and kind == "deleted"
    ):
        entry.ended_s = line["at_s"]
    else:
        raise ValueError(f"{kind!r} ends nothing that has begun")


def _partition(found: Any) -> TopicPartition:
    topic, number = found
    return TopicPartition(TopicName(topic), PartitionId(number))


def _decode_send(line: Line, _begun: Mapping[int, Entry]) -> Sent:
    return Sent(
        serial=line["serial"],
        value=line["value"].encode(_BYTES_AS_TEXT),
        producer=line["producer"],
        number=line["number"],
        partition=_partition(line["partition"]),
        acks=line["acks"],
        begun_s=line["at_s"],
    )


def _decode_assign(line: Line, _begun: Mapping[int, Entry]) -> Assignment:
    starts = {_partition(partition): start for partition, start in line["starts"]}
    return Assignment(
        line["serial"],
        line["reader"],
        starts,
        line["at_s"],
        # Histories from before there were groups have neither.
        group=line.get("group"),
        member_epoch=line.get("member_epoch"),
    )


def _decode_poll(line: Line, begun: Mapping[int, Entry]) -> Poll:
    assignment = _assignment(line, begun)
    records = tuple(ReadRecord(offset, value.encode(_BYTES_AS_TEXT)) for offset, value in line["records"])
    if not records:
        raise ValueError("a poll without records")
    return Poll(line["serial"], assignment, _partition(line["partition"]), records, line["at_s"])


def _assignment(line: Line, begun: Mapping[int, Entry]) -> Assignment:
    assignment = begun[line["assignment"]]
    if not isinstance(assignment, Assignment):
        raise TypeError(f"{line['assignment']} is no assignment")
    return assignment


def _decode_commit(line: Line, begun: Mapping[int, Entry]) -> Commit:
    return Commit(
        serial=line["serial"],
        assignment=_assignment(line, begun),
        partition=_partition(line["partition"]),
        offset=line["offset"],
        begun_s=line["at_s"],
    )


def _decode_watermark(line: Line, _begun: Mapping[int, Entry]) -> WatermarkSeen:
    return WatermarkSeen(
        serial=line["serial"],
        partition=_partition(line["partition"]),
        high_watermark=line["high_watermark"],
        log_start_offset=line["log_start_offset"],
        begun_s=line["asked_s"],
        ended_s=line["at_s"],
    )


def _decode_change(line: Line, _begun: Mapping[int, Entry]) -> PartitionChange:
    fields = {name: line[name] for name in _OF_PARTITION_CHANGE}
    fields |= {"isr": tuple(fields["isr"]), "elr": tuple(fields["elr"])}
    return PartitionChange(serial=line["serial"], partition=_partition(line["partition"]), **fields)


def _decode_fault(line: Line, _begun: Mapping[int, Entry]) -> FaultWindow:
    return FaultWindow(line["serial"], line["kind"], line["target"], line["at_s"])


def _decode_deletion(line: Line, _begun: Mapping[int, Entry]) -> TopicDeletion:
    return TopicDeletion(line["serial"], TopicName(line["topic"]), line["at_s"])


_DECODE_BEGIN: Final[Mapping[str, Callable[[Line, Mapping[int, Entry]], Entry]]] = {
    "send": _decode_send,
    "assign": _decode_assign,
    "poll": _decode_poll,
    "commit": _decode_commit,
    "watermark": _decode_watermark,
    "partition": _decode_change,
    "fault": _decode_fault,
    "delete": _decode_deletion,
}
