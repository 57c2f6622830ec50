"""Bounds of what the core holds in memory and has under way: every queue ends somewhere."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Limits"]


@dataclass(frozen=True, slots=True)
class Limits:
    #: entries of one AppendRequest; a single larger entry still travels, alone
    append_bytes_max: int = 1 << 20
    #: AppendRequests with entries on their way to one follower. More hide a longer round trip and cost memory
    inflight_max: int = 64
    #: While a request is on its way, fewer entries wait for its answer and then travel together (as Nagle's
    #: algorithm has it). A request, its sync and its answer cost several times what deciding on a change
    #: does, and under load changes come one by one: sent one by one, they would keep the voters busy with
    #: each other.
    pipelined_entries_min: int = 64
    #: entries kept before a snapshot. More spare a follower that is a little behind the whole snapshot
    entries_kept: int = 10_000
    #: proposals that wait to be committed, in number and in bytes; more are refused as OVERLOADED
    uncommitted_count_max: int = 10_000
    uncommitted_bytes_max: int = 64 << 20
    #: read barriers that wait; more are refused as OVERLOADED
    reads_max: int = 10_000
    #: voters, past and present, whose incarnation is remembered
    peers_max: int = 64
