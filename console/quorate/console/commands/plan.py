"""``quorate plan``: what a load needs, before anything is bought."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any, Final

import click
from click.core import ParameterSource
from click.types import StringParamType

from quorate.console.planning.capacity import SECONDS_A_DAY, Hardware, Plan, Workload, plan_capacity
from quorate.console.planning.quantities import (
    Rate,
    parse_bytes,
    parse_capacity,
    parse_count,
    parse_duration_s,
    parse_factor,
    parse_rate,
    parse_share,
    show_bytes,
    show_count,
    show_quotient,
)
from quorate.console.session import LocalCommand, Session, pass_session

__all__ = ["plan"]

#: Brokers have this many replicas at most: more than anybody wants, and the bound of a topic.
_REPLICATION_MAX: Final = 32
_GROUPS_MAX: Final = 10_000
#: As large as a number may be that is still shown and rounded as such.
_LARGEST: Final = Fraction(10) ** 30


class _Quantity(StringParamType):
    """A number with a unit; what cannot be read is wrong usage of the option."""

    def __init__(self, name: str, parse: Callable[[str], Any]) -> None:
        self.name = name
        self._parse = parse

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str):
            return value
        try:
            quantity = self._parse(value)
        except ValueError as error:
            self.fail(f"{error}.", param, ctx)
        number = quantity.per_second if isinstance(quantity, Rate) else quantity
        if number > _LARGEST:
            self.fail(f"{value!r} is larger than anything there is.", param, ctx)
        return quantity


def _parse_byte_rate(text: str) -> Fraction:
    rate = parse_rate(text)
    if not rate.is_bytes:
        raise ValueError(f"{text!r} counts records: bytes are wanted, as in 500MB/s or 10Gbit/s")
    return rate.per_second


def _parse_record_rate(text: str) -> Fraction:
    rate = parse_rate(text)
    if rate.is_bytes:
        raise ValueError(f"{text!r} counts bytes: events are wanted, as in 20/day")
    return rate.per_second


_RATE: Final = _Quantity("rate", parse_rate)
_BYTES: Final = _Quantity("bytes", parse_bytes)
_BYTE_RATE: Final = _Quantity("bytes per second", _parse_byte_rate)
_RECORD_RATE: Final = _Quantity("records per second", _parse_record_rate)


@click.command(cls=LocalCommand)
@click.option("--rate", type=_RATE, metavar="RATE", help="Records at the average, 1M/s; or bytes, 1GB/s.")
@click.option("--users", type=_Quantity("count", parse_count), metavar="N", help="Instead of --rate: 500M, …")
@click.option("--events", type=_RECORD_RATE, metavar="RATE", help="… each of whom makes these: 20/day.")
@click.option("--size", type=_BYTES, required=True, metavar="BYTES", help="Of a record as it is stored: 1KB.")
@click.option(
    "--peak",
    type=_Quantity("factor", parse_factor),
    default="2x",
    show_default=True,
    metavar="FACTOR",
    help="The busiest time over the average.",
)
@click.option("--replication", type=click.IntRange(1, _REPLICATION_MAX), default=3, show_default=True)
@click.option(
    "--retention",
    type=_Quantity("duration", parse_duration_s),
    default="7d",
    show_default=True,
    metavar="TIME",
)
@click.option(
    "--groups",
    type=click.IntRange(0, _GROUPS_MAX),
    default=1,
    show_default=True,
    help="Consumer groups that read all of it.",
)
@click.option(
    "--disk",
    type=_Quantity("bytes", parse_capacity),
    default="10TB",
    show_default=True,
    metavar="BYTES",
    help="Of a broker.",
)
@click.option(
    "--disk-headroom",
    type=_Quantity("share", parse_share),
    default="0%",
    show_default=True,
    metavar="SHARE",
    help="Of each disk, to be left free.",
)
@click.option(
    "--disk-rate", type=_BYTE_RATE, metavar="RATE", help="What a broker's disk can write. Default: no bound."
)
@click.option(
    "--network",
    type=_BYTE_RATE,
    default="10Gbit/s",
    show_default=True,
    metavar="RATE",
    help="Of a broker, in each direction.",
)
@click.option(
    "--per-partition",
    type=_RATE,
    default="10MB/s",
    show_default=True,
    metavar="RATE",
    help="What one partition is to take: 10MB/s, or in records, 10k/s.",
)
@click.option(
    "--per-consumer", type=_RATE, metavar="RATE", help="What one consumer can process. Default: no bound."
)
@click.pass_context
@pass_session
def plan(session: Session, context: click.Context, /, *, rate: Rate | None, **options: Any) -> None:
    """Say how many brokers and partitions a load needs, how much disk and network, what binds, and why.

    Nothing is asked of a cluster. What a partition and a disk can do here, `quorate bench` measures.
    """
    from quorate.console.output import print_json, print_table
    from quorate.console.planning.document import plan_document
    from quorate.console.planning.explaining import advice, lines

    records_per_second, rate_from = _load(rate, **options)
    found = _plan(records_per_second, options)
    assumed = _assumed(context)
    if session.json:
        print_json(plan_document(found, rate_from=rate_from, assumed=assumed))
        return
    print_table(("WHAT", "ARITHMETIC", "RESULT"), lines(found, rate_from=rate_from))
    for remark in advice(found):
        session.note(f"remark: {remark}")
    if assumed:
        session.note(f"assumed: {' '.join(assumed)}")


def _load(
    rate: Rate | None, *, users: Fraction | None, events: Fraction | None, size: Fraction, **_others: Any
) -> tuple[Fraction, str]:
    """Records in a second, and how they came about."""
    if (users is None) != (events is None):
        given, missing = ("--users", "--events") if events is None else ("--events", "--users")
        raise click.UsageError(f"{given} needs {missing}, too: 500M users, say, and 20/day events of each")
    if users is not None and events is not None and rate is None:
        a_day = show_quotient(events * SECONDS_A_DAY)
        return users * events, f"{show_count(users)} users x {a_day} a day / 86,400 s"
    if rate is None or users is not None:
        raise click.UsageError("give the load: either --rate, or --users with --events")
    if rate.is_bytes:
        return rate.per_second / size, f"{show_bytes(rate.per_second)}/s / {show_bytes(size)}"
    return rate.per_second, "as given"


def _plan(records_per_second: Fraction, options: dict[str, Any]) -> Plan:
    workload = Workload(
        records_per_second=records_per_second,
        record_bytes=options["size"],
        peak_factor=options["peak"],
        replication=options["replication"],
        retention_s=options["retention"],
        groups=options["groups"],
    )
    hardware = Hardware(
        disk_bytes=options["disk"],
        network_bytes_per_second=options["network"],
        per_partition=options["per_partition"],
        per_consumer=options["per_consumer"],
        disk_bytes_per_second=options["disk_rate"],
        disk_headroom=options["disk_headroom"],
    )
    return plan_capacity(workload, hardware)


def _assumed(context: click.Context) -> list[str]:
    """Nobody should find out later that a figure was ours."""
    return [
        f"--{parameter.name.replace('_', '-')} {parameter.default}"
        for parameter in context.command.params
        if parameter.name is not None
        and isinstance(parameter.default, str | int)
        and not isinstance(parameter.default, bool)
        and context.get_parameter_source(parameter.name) is ParameterSource.DEFAULT
    ]
