"""The arithmetic of ``quorate plan``: pure, exact, and monotonic: more load never needs less.

Four flows follow from the rate of records and their size, at the average and, times a factor, at the peak:

    in       what producers send                      rate x size
    written  each replica writes all of it            in x replication
    out      each group reads it, each follower too   in x (groups + replication - 1)
    kept     for as long as retention says            in x retention, and x replication over all brokers

Disks fill at the *average* rate: a peak within a week is in the week's average. The *speed* of network and
disks has to do for the peak. Every broker takes an equal part of everything, which holds where partitions are
many and keys are even.

A partition has one leader, and in a group one reader. So the slowest of both says how many partitions are
needed: at the average as a *minimum*, at the peak as *advised*, because partitions that are added later
send keys elsewhere.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from quorate.console.planning.quantities import Rate

__all__ = [
    "SECONDS_A_DAY",
    "Brokers",
    "Flows",
    "Hardware",
    "Need",
    "Partitions",
    "Plan",
    "Workload",
    "plan_capacity",
]

SECONDS_A_DAY: Final = 86_400


@dataclass(frozen=True, slots=True)
class Workload:
    #: records, at the average
    records_per_second: Fraction
    record_bytes: Fraction
    #: the peak over the average
    peak_factor: Fraction
    replication: int
    retention_s: Fraction
    groups: int


@dataclass(frozen=True, slots=True)
class Hardware:
    """What one broker, one partition and one consumer can do."""

    disk_bytes: Fraction
    #: in each direction
    network_bytes_per_second: Fraction
    per_partition: Rate
    #: None: consumers keep up with whatever a partition can do
    per_consumer: Rate | None = None
    #: None: not what binds
    disk_bytes_per_second: Fraction | None = None
    #: of each disk, to be left free
    disk_headroom: Fraction = Fraction(0)


@dataclass(frozen=True, slots=True)
class Flows:
    """Of the whole cluster, in a second."""

    records: Fraction
    in_bytes: Fraction
    written_bytes: Fraction
    out_bytes: Fraction


@dataclass(frozen=True, slots=True)
class Need:
    """How many of something one bound asks for."""

    bound: str
    #: before it is rounded up
    quotient: Fraction

    @property
    def count(self) -> int:
        return math.ceil(self.quotient)


@dataclass(frozen=True, slots=True)
class Brokers:
    count: int
    bound_by: str
    needs: tuple[Need, ...]


@dataclass(frozen=True, slots=True)
class Partitions:
    minimum: int
    advised: int
    bound_by: str
    #: at the average, and at the peak
    minimum_needs: tuple[Need, ...]
    advised_needs: tuple[Need, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    workload: Workload
    hardware: Hardware
    average: Flows
    peak: Flows
    bytes_per_day: Fraction
    retained_bytes: Fraction
    replicated_bytes: Fraction
    brokers: Brokers
    partitions: Partitions

    @property
    def disk_bytes_per_broker(self) -> Fraction:
        return self.replicated_bytes / self.brokers.count

    @property
    def disk_used_share(self) -> Fraction:
        return self.disk_bytes_per_broker / self.hardware.disk_bytes

    @property
    def peak_in_per_broker(self) -> Fraction:
        """What producers send, and what it fetches as a follower."""
        return self.peak.written_bytes / self.brokers.count

    @property
    def peak_out_per_broker(self) -> Fraction:
        return self.peak.out_bytes / self.brokers.count

    @property
    def replicas_per_broker(self) -> Fraction:
        return Fraction(self.partitions.advised * self.workload.replication, self.brokers.count)


def plan_capacity(workload: Workload, hardware: Hardware) -> Plan:
    average = _flows(workload, Fraction(1))
    peak = _flows(workload, workload.peak_factor)
    retained = average.in_bytes * workload.retention_s
    replicated = retained * workload.replication
    return Plan(
        workload=workload,
        hardware=hardware,
        average=average,
        peak=peak,
        bytes_per_day=average.in_bytes * SECONDS_A_DAY,
        retained_bytes=retained,
        replicated_bytes=replicated,
        brokers=_brokers(workload, hardware, peak, replicated),
        partitions=_partitions(hardware, average, peak),
    )


def _flows(workload: Workload, factor: Fraction) -> Flows:
    records = workload.records_per_second * factor
    in_bytes = records * workload.record_bytes
    readers = workload.groups + workload.replication - 1
    return Flows(records, in_bytes, in_bytes * workload.replication, in_bytes * readers)


def _brokers(workload: Workload, hardware: Hardware, peak: Flows, replicated: Fraction) -> Brokers:
    needs = [
        Need("disk", replicated / (hardware.disk_bytes * (1 - hardware.disk_headroom))),
        Need("network_in", peak.written_bytes / hardware.network_bytes_per_second),
        Need("network_out", peak.out_bytes / hardware.network_bytes_per_second),
    ]
    if hardware.disk_bytes_per_second is not None:
        needs.append(Need("disk_rate", peak.written_bytes / hardware.disk_bytes_per_second))
    # Two replicas on one broker are lost together.
    needs.append(Need("replication", Fraction(workload.replication)))
    largest = max(needs, key=lambda need: need.quotient)
    return Brokers(largest.count, largest.bound, tuple(needs))


def _partitions(hardware: Hardware, average: Flows, peak: Flows) -> Partitions:
    minimum, advised = _partition_needs(hardware, average), _partition_needs(hardware, peak)
    # The same bound at both: they differ by one factor.
    largest = max(advised, key=lambda need: need.quotient)
    return Partitions(
        minimum=max(need.count for need in minimum),
        advised=largest.count,
        bound_by=largest.bound,
        minimum_needs=minimum,
        advised_needs=advised,
    )


def _partition_needs(hardware: Hardware, flows: Flows) -> tuple[Need, ...]:
    needs = [Need("partition_rate", _at(hardware.per_partition, flows))]
    if hardware.per_consumer is not None:
        needs.append(Need("consumer_rate", _at(hardware.per_consumer, flows)))
    return tuple(needs)


def _at(rate: Rate, flows: Flows) -> Fraction:
    return (flows.in_bytes if rate.is_bytes else flows.records) / rate.per_second
