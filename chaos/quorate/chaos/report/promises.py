"""What each check says in words, and which promise it belongs to.

Checks carry Jepsen's names for what goes wrong, so that readers who know them can look them up; everybody
else wants a sentence.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, NamedTuple

__all__ = ["RETIRED", "Promise", "Subject", "promise_of"]


class Subject(StrEnum):
    """For tables that have no room for every check."""

    KEPT = "acknowledged is kept"
    READ = "reads are true"
    ORDER = "order"
    COPIES = "copies agree"
    LEADERS = "leaders"
    AVAILABLE = "available again"
    STORY = "the story itself"


class Promise(NamedTuple):
    subject: Subject
    words: str


_PROMISES: Final = {
    "lost-write": Promise(Subject.KEPT, "Every acknowledged record is in the log, at its offset"),
    "unseen": Promise(Subject.KEPT, "Readers have seen every acknowledged record"),
    "retention": Promise(Subject.KEPT, "Only what retention may delete was deleted"),
    "weak-acks": Promise(Subject.KEPT, "Losses with acks=0 and acks=1: counted, and promised to nobody"),
    "duplicate": Promise(Subject.READ, "No record is in a log twice"),
    "phantom": Promise(Subject.READ, "Nothing is in a log that nobody has sent"),
    "aborted-read": Promise(Subject.READ, "Nothing that was refused is in a log"),
    "inconsistent-offsets": Promise(Subject.READ, "Each offset has one value, for everybody and for ever"),
    "truncated-after-read": Promise(Subject.READ, "What a reader was shown stays in the log"),
    "silent-loss": Promise(Subject.READ, "A reader is told when what it has read is given up"),
    "int-poll-skip": Promise(Subject.ORDER, "No gap within what one poll returns"),
    "int-nonmonotonic-poll": Promise(Subject.ORDER, "No step back within what one poll returns"),
    "poll-skip": Promise(Subject.ORDER, "No gap from one poll to the next"),
    "nonmonotonic-poll": Promise(Subject.ORDER, "No step back from one poll to the next"),
    "group-skipped": Promise(Subject.READ, "A group that has read to the end was handed every record"),
    "last-word": Promise(Subject.KEPT, "Compaction keeps the last word on every key"),
    "commit-lost": Promise(Subject.KEPT, "A member goes on no earlier than where the group has committed"),
    "commit-invented": Promise(Subject.READ, "A member goes on nowhere but where the group has committed"),
    "zombie-commit": Promise(Subject.LEADERS, "Nobody commits for a partition that has become another's"),
    "two-owners": Promise(Subject.LEADERS, "A partition has one owner in each epoch of a group"),
    "nonmonotonic-send": Promise(Subject.ORDER, "A producer's records are in the order of its sends"),
    "real-time-order": Promise(Subject.ORDER, "A record comes behind all that was known when it was sent"),
    "nonmonotonic-watermark": Promise(Subject.ORDER, "High watermarks never go back"),
    "replicas-differ": Promise(Subject.COPIES, "All replicas hold the same bytes below the high watermark"),
    "undetected-damage": Promise(Subject.COPIES, "Damage on disk is noticed"),
    "nonmonotonic-epoch": Promise(Subject.LEADERS, "Epochs never go back"),
    "split-brain": Promise(Subject.LEADERS, "A leader epoch has one leader"),
    "unclean-election": Promise(Subject.LEADERS, "Whoever is elected was in the ISR or the ELR"),
    "two-controllers": Promise(Subject.LEADERS, "A term has one controller"),
    "unavailable": Promise(Subject.AVAILABLE, "Without a fault, writes are acknowledged within the bound"),
    "control": Promise(Subject.STORY, "A system that is known to be broken is caught"),
    "vacuous": Promise(Subject.STORY, "What the story is about did happen"),
    "story": Promise(Subject.STORY, "What this story expects beside all this"),
}
#: checks that no longer exist, for runs that were recorded while they did
RETIRED: Final = {
    # An invariant of the simulator says it of every acknowledgement; drills could never count the copies.
    "too-few-copies": Promise(Subject.KEPT, "MinISR replicas held each record when it was acknowledged"),
}


def promise_of(check: str) -> Promise:
    """A check that is not listed is told by its name."""
    return _PROMISES.get(check) or RETIRED.get(check) or Promise(Subject.STORY, check)
