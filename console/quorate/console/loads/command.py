"""What ``quorate topic describe --load`` does: look, wait, look again, read a little, tell."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import click

from quorate.console.loads.key_sampling import KeySample, sample_keys
from quorate.console.loads.rates import PartitionRate, Seen, Skew, rates_of, skew_of
from quorate.console.output import print_json, print_table
from quorate.console.planning.quantities import show_bytes
from quorate.console.record_document import key_document
from quorate.console.session import Session

if TYPE_CHECKING:
    from quorate.client import AsyncAdmin
    from quorate.console.connecting import Clients

__all__ = ["LoadOptions", "show_load"]


@dataclass(frozen=True, slots=True)
class LoadOptions:
    interval_s: float
    #: that are shown
    keys: int
    #: that are read of each partition
    records: int


@dataclass(frozen=True, slots=True)
class _Load:
    topic: str
    seconds: float
    rates: Sequence[PartitionRate]
    leaders: dict[int, int | None]
    skew: Skew | None
    sample: KeySample
    #: partitions that nobody answers for
    silent: Sequence[int]


async def show_load(clients: Clients, session: Session, topic: str, options: LoadOptions) -> None:
    async with clients.admin() as admin:
        before, _ = await _look(admin, topic)
        began = time.monotonic()
        session.note(f"looking at {topic} for {options.interval_s:g} s …")
        await asyncio.sleep(options.interval_s)
        after, leaders = await _look(admin, topic)
        seconds = time.monotonic() - began
    async with clients.consumer() as consumer:
        sample = await sample_keys(consumer, topic, after, records_max=options.records)
    rates = rates_of(before, after, seconds=seconds)
    silent = sorted(leaders.keys() - after.keys())
    load = _Load(topic, seconds, rates, leaders, skew_of(rates), sample, silent)
    if session.json:
        print_json(_document(load, options))
    else:
        _print(load, options)


async def _look(admin: AsyncAdmin, topic: str) -> tuple[dict[int, Seen], dict[int, int | None]]:
    """What the leaders that answer say; and who leads."""
    described = await admin.describe_topic(topic)
    seen = {
        each.partition: Seen(each.log_start_offset, each.high_watermark, each.size_bytes)
        for each in described.partitions
        if each.log_start_offset is not None
        and each.high_watermark is not None
        and each.size_bytes is not None
    }
    return seen, {each.partition: each.leader for each in described.partitions}


def _document(load: _Load, options: LoadOptions) -> dict[str, Any]:
    skew = load.skew
    total = load.sample.keys.total
    return {
        "topic": load.topic,
        "interval_s": round(load.seconds, 3),
        "records_per_s": round(sum(each.records_per_s for each in load.rates), 3),
        "bytes_per_s": round(sum(each.bytes_per_s for each in load.rates), 3),
        "skew": skew and {"heaviest": skew.heaviest, "factor": round(skew.factor, 3), "hot": list(skew.hot)},
        "partitions": [
            {
                "partition": each.partition,
                "leader": load.leaders[each.partition],
                "records_per_s": round(each.records_per_s, 3),
                "bytes_per_s": round(each.bytes_per_s, 3),
                "is_estimated": each.is_estimated,
            }
            for each in load.rates
        ],
        "silent_partitions": list(load.silent),
        "sampled_records": load.sample.records,
        "sampled_bytes": total,
        "keys": [
            {
                **key_document(each.thing),
                "bytes": each.weight,
                "bytes_error_max": each.error,
                "share": round(each.weight / total, 6) if total else 0.0,
            }
            for each in load.sample.keys.top(options.keys)
        ],
    }


def _print(load: _Load, options: LoadOptions) -> None:
    records = sum(each.records_per_s for each in load.rates)
    total = sum(each.bytes_per_s for each in load.rates)
    click.echo(f"topic {load.topic}  {records:,.1f} records/s  {_rate(total)}  over {load.seconds:.1f} s")
    hot = load.skew.hot if load.skew is not None else ()
    rows = [
        [
            each.partition,
            load.leaders[each.partition],
            f"{each.records_per_s:,.1f}",
            ("~" if each.is_estimated else "") + _rate(each.bytes_per_s),
            f"{each.bytes_per_s / total:.1%}" if total else "-",
            "hot" if each.partition in hot else "",
        ]
        for each in load.rates
    ]
    print_table(("PARTITION", "LEADER", "RECORDS/S", "BYTES/S", "SHARE", ""), rows)
    for partition in load.silent:
        click.echo(f"partition {partition}: its leader does not answer")
    if load.skew is not None:
        click.echo(f"skew: partition {load.skew.heaviest} gets {load.skew.factor:.1f} times the average")
    _print_keys(load.sample, options)


def _print_keys(sample: KeySample, options: LoadOptions) -> None:
    total = sample.keys.total
    click.echo(f"\nheaviest keys of the last {sample.records:,} records, {show_bytes(Fraction(total))}:")
    rows = [
        [
            "(none)" if each.thing is None else key_document(each.thing)["key"],
            show_bytes(Fraction(each.weight)),
            f"{each.weight / total:.1%}" if total else "-",
            f"{each.error / total:.1%}" if total else "-",
        ]
        for each in sample.keys.top(options.keys)
    ]
    print_table(("KEY", "BYTES", "SHARE", "AT MOST TOO MUCH"), rows)


def _rate(bytes_per_s: float) -> str:
    return f"{show_bytes(Fraction(round(bytes_per_s)))}/s"
