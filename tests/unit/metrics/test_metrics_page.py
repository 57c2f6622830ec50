"""How metrics are written down: what a collector reads is what was told, and writing it holds up nobody."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.openmetrics import parser as openmetrics_parser
from prometheus_client.parser import text_string_to_metric_families

from quorate.core.metrics import Metric, MetricKind, MetricSource, Reading, Sample
from quorate.node.metrics import exposition
from quorate.node.metrics.exposition import Format, write_page
from quorate.node.metrics.page import MetricsPage

PARSERS: dict[Format, Callable[[str], Iterable[object]]] = {
    Format.TEXT: text_string_to_metric_families,
    Format.OPENMETRICS: openmetrics_parser.text_string_to_metric_families,
}
LAG = Metric("quorate_group_lag_records", MetricKind.GAUGE, "How far behind.", ("group", "partition"))
INFO = Metric("quorate_node_info", MetricKind.INFO, "Who it is.", ("version",))
TOTAL = Metric("quorate_node_starts_total", MetricKind.COUNTER, 'Says "so",\nin two \\ lines.')

OF_PROMETHEUS = (
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,"
    "application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
)

both_formats = pytest.mark.parametrize("form", list(Format), ids=lambda form: form.name)


class FakeSource:
    def __init__(self, *readings: Reading) -> None:
        self.readings = readings
        self.looks = 0
        self.may_look = asyncio.Event()
        self.may_look.set()

    async def look(self) -> None:
        self.looks += 1
        await self.may_look.wait()

    def read(self) -> Iterable[Reading]:
        return self.readings


def families(
    page: bytes, form: Format
) -> dict[str, tuple[str, str, list[tuple[str, dict[str, str], float]]]]:
    """By name: kind, help, and samples, as a collector understands the page."""
    found = {}
    for family in PARSERS[form](page.decode()):
        assert family.name not in found, "told in one place"  # type: ignore[attr-defined]
        samples = [(each.name, each.labels, each.value) for each in family.samples]  # type: ignore[attr-defined]
        found[family.name] = (family.type, family.documentation, samples)  # type: ignore[attr-defined]
    return found


async def written(form: Format, *readings: Reading) -> bytes:
    return await write_page([FakeSource(*readings)], form)


# -- formats


@both_formats
async def test_collector_reads_what_was_told(form: Format) -> None:
    samples = [Sample(("billing", "0"), 7), Sample(("billing", "1"), 0.25)]
    readings = (
        Reading(LAG, samples),
        Reading(INFO, [Sample(("1.2.3",), 1)]),
        Reading(TOTAL, [Sample((), 3)]),
    )
    found = families(await written(form, *readings), form)
    assert found["quorate_group_lag_records"] == (
        "gauge",
        "How far behind.",
        [
            ("quorate_group_lag_records", {"group": "billing", "partition": "0"}, 7),
            ("quorate_group_lag_records", {"group": "billing", "partition": "1"}, 0.25),
        ],
    )
    starts = found.get("quorate_node_starts") or found["quorate_node_starts_total"]
    assert starts == ("counter", TOTAL.about, [("quorate_node_starts_total", {}, 3)])
    info = found.get("quorate_node") or found["quorate_node_info"]
    assert info[2] == [("quorate_node_info", {"version": "1.2.3"}, 1)]


@both_formats
async def test_many_samples_are_one_metric(form: Format) -> None:
    count = 3 * exposition._SAMPLES_PER_TURN + 1
    many = (Sample((f"g{number}", "0"), number) for number in range(count))
    page = await written(form, Reading(LAG, many), Reading(INFO, [Sample(("1",), 1)]))
    assert page.count(b"# TYPE quorate_group_lag_records") == 1
    assert page.count(b"# HELP quorate_group_lag_records") == 1
    assert page.count(b"# EOF") == (form is Format.OPENMETRICS)
    samples = families(page, form)["quorate_group_lag_records"][2]
    assert [value for _, _, value in samples] == list(range(count))
    assert samples[-1][1] == {"group": f"g{count - 1}", "partition": "0"}


@both_formats
async def test_metric_without_samples_is_not_mentioned(form: Format) -> None:
    page = await written(form, Reading(LAG, []))
    assert families(page, form) == {}
    assert b"lag" not in page


names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=255)


@both_formats
@given(group=names)
def test_any_name_of_a_group_is_read_as_it_is(form: Format, group: str) -> None:
    page = asyncio.run(written(form, Reading(LAG, [Sample((group, "0"), 1), Sample(("#", "1"), 2)])))
    [(_, _, samples)] = families(page, form).values()
    assert [labels["group"] for _, labels, _ in samples] == [group, "#"]


@both_formats
async def test_name_that_looks_like_a_heading_stays_where_a_piece_begins(
    form: Format, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exposition, "_SAMPLES_PER_TURN", 1)
    told = [Sample(("a\n# HELP", "0"), 1), Sample(("# TYPE\n#", "1"), 2), Sample(("a\0\r", "2"), 3)]
    [(_, _, samples)] = families(await written(form, Reading(LAG, told)), form).values()
    assert [labels["group"] for _, labels, _ in samples] == ["a\n# HELP", "# TYPE\n#", "a\0\r"]


@pytest.mark.parametrize(
    ("accept", "form"),
    [
        ("", Format.TEXT),
        ("*/*", Format.TEXT),
        ("text/plain;version=0.0.4", Format.TEXT),
        ("application/openmetrics-text", Format.OPENMETRICS),
        ("text/html, Application/OpenMetrics-Text ; version=nonsense", Format.OPENMETRICS),
        (OF_PROMETHEUS, Format.OPENMETRICS),
        ("application/openmetrics-text;q=0, text/plain", Format.TEXT),
        (";;,,;q", Format.TEXT),
    ],
)
def test_openmetrics_is_for_whoever_asks_for_it(accept: str, form: Format) -> None:
    assert Format.accepted(accept) is form


# -- nobody is held up


async def test_other_work_goes_on_while_a_page_is_written() -> None:
    pieces = 20
    many = (Sample((f"g{number}", "0"), number) for number in range(pieces * exposition._SAMPLES_PER_TURN))
    writing = asyncio.create_task(written(Format.TEXT, Reading(LAG, many)))
    turns = 0
    while not writing.done():
        await asyncio.sleep(0)
        turns += 1
    assert turns >= pieces


def pages(*sources: MetricSource) -> MetricsPage:
    def current() -> Sequence[MetricSource]:
        return sources

    return MetricsPage(current)


async def test_all_who_ask_at_once_share_a_page() -> None:
    source = FakeSource(Reading(INFO, [Sample(("1",), 1)]))
    page = pages(source)
    asked = [page.get(Format.TEXT) for _ in range(10)] + [page.get(Format.OPENMETRICS) for _ in range(10)]
    answers = await asyncio.gather(*asked)
    assert source.looks == 2
    assert len(set(map(id, answers))) == 2
    await page.close()


async def test_page_is_written_again_after_a_second() -> None:
    source = FakeSource(Reading(INFO, [Sample(("1",), 1)]))
    page = pages(source)
    loop = asyncio.get_running_loop()
    began = loop.time()
    await page.get(Format.TEXT)
    async with asyncio.timeout(30):
        while source.looks == 1:
            await page.get(Format.TEXT)
            await asyncio.sleep(0.01)
    assert loop.time() - began >= 1.0
    await page.close()


async def test_one_who_goes_away_does_not_take_the_page_from_others() -> None:
    source = FakeSource(Reading(INFO, [Sample(("1",), 1)]))
    source.may_look.clear()
    page = pages(source)
    first, second = (asyncio.create_task(page.get(Format.TEXT)) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    source.may_look.set()
    assert b"quorate_node_info" in await second
    assert first.cancelled()
    await page.close()


async def test_page_that_takes_long_is_not_begun_twice() -> None:
    source = FakeSource(Reading(INFO, [Sample(("1",), 1)]))
    source.may_look.clear()
    page = pages(source)
    first = asyncio.create_task(page.get(Format.TEXT))
    await asyncio.sleep(1.1)  # longer than a page is kept
    second = asyncio.create_task(page.get(Format.TEXT))
    await asyncio.sleep(0)
    source.may_look.set()
    assert await first is await second
    assert source.looks == 1
    await page.close()


async def test_source_that_fails_fails_this_page_alone() -> None:
    class Broken(FakeSource):
        def read(self) -> Iterator[Reading]:
            if self.looks == 1:
                raise ZeroDivisionError
            yield from self.readings

    page = pages(Broken(Reading(INFO, [Sample(("1",), 1)])))
    with pytest.raises(ZeroDivisionError):
        await page.get(Format.TEXT)
    async with asyncio.timeout(30):
        while True:
            try:
                assert b"quorate_node_info" in await page.get(Format.TEXT)
                break
            except ZeroDivisionError:
                await asyncio.sleep(0.05)
    await page.close()
