"""Coverage-guided search for bytes that break the record batch codec.

    python -m tests.fuzz.fuzz_records -max_total_time=60          a minute
    python -m tests.fuzz.fuzz_records -max_total_time=3600 DIR    an hour; DIR keeps what it learns
    python -m tests.fuzz.fuzz_records crash-...                   one input again

Every input goes through both implementations. They have to agree: the same result, or the same typed
error with the same words. Anything else that is raised, a crash, ten seconds without an answer or a
gigabyte of memory ends the search, and libFuzzer writes the input to a file.

atheris instruments the pure implementation and so finds its way through the compiled one as well,
which takes the same decisions. The first byte of an input says what to do with the rest: hardly any
random bytes match a CRC, so most ways of reading them write a CRC that does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from struct import pack
from typing import Any, Final

import atheris  # type: ignore[import-untyped]
from crc32c import crc32c

with atheris.instrument_imports(include=["quorate.core.records"]):
    from quorate.core.records import _pure as pure

from quorate.core.records import _compiled as compiled
from quorate.core.records.compression import compress
from quorate.core.records.format import Compression, Record
from quorate.errors import BatchTooLarge, CorruptBatch, InvalidRecord, UnsupportedBatch
from tests.fuzz.searching import search

DECOMPRESSED_BYTES_MAX: Final = 256 * 1024


class ImplementationsDisagree(Exception):
    """The compiled and the pure codec gave different answers."""


def outcome(function: Callable[..., object], *arguments: Any, **keywords: Any) -> str:
    """What a call gives, as text; an error that is none of these passes through and is a find."""
    try:
        return repr(function(*arguments, **keywords))
    except (CorruptBatch, UnsupportedBatch, BatchTooLarge, InvalidRecord) as error:
        return f"{type(error).__name__}: {error.message} {error.facts}"


def compare(name: str, *arguments: Any, **keywords: Any) -> None:
    expected = outcome(getattr(pure, name), *arguments, **keywords)
    found = outcome(getattr(compiled, name), *arguments, **keywords)
    if found != expected:
        raise ImplementationsDisagree(f"{name}: pure gives {expected}, compiled gives {found}")


def compare_reading(batch: bytes) -> None:
    for name in ("parse_header", "check_batch", "scan_batches"):
        compare(name, batch)
    compare(
        "scan_run",
        batch,
        0,
        next_offset=int.from_bytes(batch[:8], signed=True),
        end_offset=2**63 - 1,
        leader_epoch=int.from_bytes(batch[12:16], signed=True),
        max_timestamp=-1,
        mark_from=0,
        mark_every=100,
    )
    compare("decode_batch", batch, decompressed_bytes_max=DECOMPRESSED_BYTES_MAX)
    compare(
        "decode_consumer_records",
        batch,
        topic="t",
        partition=1,
        from_offset=2,
        decompressed_bytes_max=DECOMPRESSED_BYTES_MAX,
    )
    compare("decode_columns", batch, headers=True, decompressed_bytes_max=DECOMPRESSED_BYTES_MAX)


def sealed(covered: bytes) -> bytes:
    """A batch of which the CRC and the length are right, and nothing else has to be."""
    return pack(">qiibI", 0, 9 + len(covered), 0, 2, crc32c(covered)) + covered


# --- what the first byte chooses from


def read_as_it_is(rest: bytes) -> None:
    compare_reading(rest)


def read_sealed(rest: bytes) -> None:
    """The rest begins with the attributes."""
    compare_reading(sealed(rest))


def read_as_body(rest: bytes) -> None:
    """The rest begins with a byte for the record count, one for the attributes, then the body."""
    count, attributes = rest[0], rest[1] & 0x0F
    body = rest[2:]
    if attributes & 0x07 <= max(Compression) and count & 1:
        # Half of the time the body is what decompression gives, not what it gets.
        body = compress(Compression(attributes & 0x07), body)
    fields = pack(">hiqqqhii", attributes, 200, 2**62, 5, -1, -1, -1, count >> 1)
    compare_reading(sealed(fields + body))


def write_and_read(rest: bytes) -> None:
    provider = atheris.FuzzedDataProvider(rest)
    records = [some_record(provider) for _ in range(provider.ConsumeIntInRange(1, 6))]
    compression = provider.PickValueInList(list(Compression))
    compare("encode_batch", records, compression=compression)
    try:
        batch = compiled.encode_batch(records, compression=compression)
    except InvalidRecord:
        return
    expected = [record._replace(offset=index) for index, record in enumerate(records)]
    if compiled.decode_batch(batch) != expected:
        raise ImplementationsDisagree(f"{records} came back as {compiled.decode_batch(batch)}")
    compare_reading(batch)


def some_record(provider: Any) -> Record:
    def field() -> bytes | None:
        if provider.ConsumeBool():
            return None
        found: bytes = provider.ConsumeBytes(provider.ConsumeIntInRange(0, 200))
        return found

    headers = tuple(
        (provider.ConsumeUnicode(provider.ConsumeIntInRange(0, 9)), field())
        for _ in range(provider.ConsumeIntInRange(0, 3))
    )
    return Record(0, provider.ConsumeInt(9), field(), field(), headers)


WAYS: Final = (read_as_it_is, read_sealed, read_as_body, write_and_read)
REST_BYTES_MIN: Final = 2


def test_one_input(data: bytes) -> None:
    if len(data) > REST_BYTES_MIN:
        WAYS[data[0] % len(WAYS)](data[1:])


# --- running it


def seeds() -> Iterator[bytes]:
    """Good batches for each way to begin with; libFuzzer makes bad ones of them."""
    records = [
        Record(0, 1_700_000_000_000, None, b"value" * 10),
        Record(0, 1_700_000_000_005, b"key", None, (("header", b"x"), ("\u2603", None))),
    ]
    for compression in Compression:
        batch = compiled.encode_batch(records, compression=compression)
        yield bytes([0]) + batch + batch
        yield bytes([1]) + batch[21:]
        yield bytes([2, 4, compression]) + batch[61:]
        yield bytes([3]) + batch


if __name__ == "__main__":
    search("records", test_one_input, seeds())
