"""Mutations that the whole cluster was tried with, and did not notice: kept by hand.

A table of what was caught says nothing about what was tried.
"""

from __future__ import annotations

from typing import Final, NamedTuple

__all__ = ["MISSED", "Missed"]


class Missed(NamedTuple):
    rule: int
    what: str
    #: how many it was tried with
    seeds: int
    #: why not: another rule covers for it, or clients and faults do not come there
    why: str
    #: who notices instead
    instead: str


MISSED: Final = (
    Missed(
        3,
        "leader epochs of requests are not compared",
        12,
        "the follower compares too, and drops the answer (rule 10)",
        "story of a leader",
    ),
    Missed(
        10,
        "answers of any epoch are believed",
        8,
        "they come on a stream from one broker: one that is late is from a broker that leads again, with a "
        "log that holds what it sent",
        "story of a follower",
    ),
    Missed(
        18,
        "a high watermark from disk is not clamped to the log",
        10,
        "who looks at it sees it clamped too",
        "unit tests of replicas",
    ),
    Missed(
        22,
        "any refusal takes a wish back",
        15,
        "the leader waits for a follower that keeps pace, asks again in a moment, and is told what holds",
        "story of a leader",
    ),
    Missed(
        30,
        "the boot is not looked at",
        60,
        "the page cache has a witness, whose last number the controller has heard: it tells too, and of more "
        "than a loss of power",
        "lives of a directory",
    ),
    Missed(
        37,
        "a lease runs from when its heartbeat was answered",
        20,
        "a pause has to begin between a heartbeat and its answer, which is a matter of milliseconds",
        "a broker and scripted controllers",
    ),
    Missed(
        37,
        "a lease is renewed before the metadata is here that its answer names",
        20,
        "heartbeats have to get through while metadata does not, and a leader has to be moved by plan then",
        "a broker and scripted controllers",
    ),
    Missed(
        42,
        "a damaged journal is cut without a note",
        40,
        "two of three voters have to be damaged before the first has caught up",
        "checks of a voter's directory; that a voter in doubt does not count: Raft simulator",
    ),
    Missed(
        43,
        "topics are found by name alone",
        8,
        "a record that was sent around a deletion may be in either topic, for clients write by name",
        "whole-cluster story",
    ),
    Missed(
        44,
        "a damaged log is dropped although it is in the ISR",
        25,
        "a broker tells of damage at once: the leader has to change in the milliseconds before it is heard, "
        "and the broker to die before it has copied everything",
        "whole-cluster story",
    ),
    Missed(
        44,
        "damage is ignored at a registration",
        40,
        "of a batch that has rotted the broker tells again in a heartbeat, and does not lead meanwhile; what "
        "only a registration tells is that a log has lost its end, and no plan cuts logs",
        "whole-cluster story, model of the controller",
    ),
    Missed(
        48,
        "a follower that ends within an empty batch of its leader's does not cut it",
        75,
        "what lies on both sides of its end has to be replaced while it is away, for two seconds at most",
        "test of compaction beside other things",
    ),
    Missed(
        51,
        "duplicates are called out of order",
        8,
        'our client calls whatever may have been written "unknown", which is true',
        "lives of a log",
    ),
    Missed(
        62,
        "takes commits of whoever does not hold the partition",
        15,
        "our client gives a partition up before it is another's, and does not commit in it any more; who was "
        "removed is no member",
        "model of groups",
    ),
    Missed(
        62,
        "takes partitions away without waiting",
        15,
        "its former owner reads on for a moment, as one that is suspended does, and its commits are refused",
        "model of groups",
    ),
    Missed(
        62,
        "gives what somebody holds",
        150,
        "members poll all the time, so they give it up in milliseconds: one has to begin a commit in those "
        "in which another was told of the partition already",
        "whole-cluster story, model of groups",
    ),
    Missed(
        63,
        "answers when another may coordinate by now",
        30,
        "what a coordinator says waits for all that it has appended, and there is always a commit under way, "
        "which it cannot get replicated any more",
        "whole-cluster story",
    ),
)
