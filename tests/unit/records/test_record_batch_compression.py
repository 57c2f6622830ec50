"""Compression: what is written, what is read, and that neither is without bound."""

from __future__ import annotations

import random
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from struct import pack
from types import ModuleType

import cramjam
import pytest

from quorate.core.records import Compression
from quorate.core.records.compression import compress, decompress
from quorate.errors import BatchTooLarge, CorruptBatch
from tests.unit.records.batches import raw_batch, raw_record

MEBIBYTE = 1024 * 1024
REAL = [Compression.GZIP, Compression.SNAPPY, Compression.LZ4, Compression.ZSTD]
XERIAL_HEADER = b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01"


def bodies() -> list[bytes]:
    noise = random.Random(5).randbytes
    return [b"", b"a", bytes(100_000), noise(1000), noise(200_000), (noise(40) * 3 + b"text") * 2000]


@pytest.mark.parametrize("compression", Compression)
def test_what_was_compressed_comes_back(compression: Compression) -> None:
    for body in bodies():
        for source in (body, bytearray(body), memoryview(body)):
            assert decompress(compression, compress(compression, source), bytes_max=MEBIBYTE) == body


def test_snappy_is_framed_as_by_kafkas_java_client() -> None:
    body = bytes(40_000)
    compressed = compress(Compression.SNAPPY, body)
    first = bytes(cramjam.snappy.compress_raw(body[:32768]))
    second = bytes(cramjam.snappy.compress_raw(body[32768:]))
    assert compressed == (XERIAL_HEADER + pack(">i", len(first)) + first + pack(">i", len(second)) + second)


def test_snappy_without_frame_is_read_too() -> None:
    raw = bytes(cramjam.snappy.compress_raw(b"quorate" * 99))
    assert decompress(Compression.SNAPPY, raw, bytes_max=MEBIBYTE) == b"quorate" * 99


def test_lz4_blocks_are_independent_as_kafka_needs_them() -> None:
    frame = compress(Compression.LZ4, bytes(200_000))
    assert frame[:4] == bytes.fromhex("04224d18")
    assert frame[4] & 0x20


@pytest.mark.parametrize("library", [cramjam.lz4, cramjam.zstd, cramjam.gzip])
def test_frames_as_the_libraries_write_them_by_default_are_read(library: ModuleType) -> None:
    compression = Compression[library.__name__.rpartition(".")[2].upper()]
    for body in bodies():
        assert decompress(compression, bytes(library.compress(body)), bytes_max=MEBIBYTE) == body


@pytest.mark.parametrize("compression", [Compression.GZIP, Compression.LZ4, Compression.ZSTD])
def test_frames_in_a_row_are_one_body(compression: Compression) -> None:
    frames = compress(compression, b"one" * 50) + compress(compression, b"two" * 50)
    assert decompress(compression, frames, bytes_max=MEBIBYTE) == b"one" * 50 + b"two" * 50


@pytest.mark.parametrize("compression", REAL)
def test_the_bound_is_met_exactly(compression: Compression) -> None:
    for size in (1, 4096, 100_000):
        body = compress(compression, bytes(size))
        assert len(decompress(compression, body, bytes_max=size)) == size
        with pytest.raises(BatchTooLarge, match=f"more than {size - 1} bytes") as caught:
            decompress(compression, body, bytes_max=size - 1)
        assert caught.value.facts == {"decompressed_bytes_max": size - 1}


def zstd_bomb(block_count: int) -> bytes:
    """Blocks that repeat one byte 128 KiB times, four bytes each; the frame states no size."""
    frame = bytes.fromhex("28b52ffd0050")
    block = ((128 * 1024 << 3) | 0b010).to_bytes(3, "little") + b"x"
    return frame + block * block_count + ((1 << 3) | 0b011).to_bytes(3, "little") + b"x"


BOMBS: list[tuple[Compression, Callable[[], bytes]]] = [
    (Compression.GZIP, lambda: bytes(cramjam.gzip.compress(bytes(64 * MEBIBYTE), level=6))),
    (Compression.SNAPPY, lambda: bytes(cramjam.snappy.compress_raw(bytes(64 * MEBIBYTE)))),
    (Compression.LZ4, lambda: compress(Compression.LZ4, bytes(64 * MEBIBYTE))),
    (Compression.ZSTD, lambda: zstd_bomb(2000)),
]


@pytest.mark.parametrize(("compression", "make"), BOMBS)
def test_a_bomb_is_refused_within_the_bound(
    codec: ModuleType, compression: Compression, make: Callable[[], bytes]
) -> None:
    batch = raw_batch(make(), attributes=compression, record_count=100)
    tracemalloc.start()
    try:
        for decode in (codec.decode_batch, codec.decode_columns):
            with pytest.raises(BatchTooLarge, match="more than 1048576 bytes"):
                decode(batch, decompressed_bytes_max=MEBIBYTE)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 2 * MEBIBYTE


DECODE_ALL = """
import sys
from pathlib import Path
from quorate.core.records import decode_batch
from quorate.errors import BatchTooLarge

def peak():
    # Not by getrusage: what the process that started this one once had would count.
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM:"))

batches = [Path(name).read_bytes() for name in sys.argv[1:]]
before = peak()
for batch in batches:
    try:
        decode_batch(batch, decompressed_bytes_max=1024 * 1024)
    except BatchTooLarge:
        print("refused")
print(peak() - before)
"""


def test_no_bomb_makes_the_process_grow_beyond_a_few_times_the_bound(tmp_path: Path) -> None:
    """The libraries' own memory counts too, which tracemalloc does not see."""
    files = []
    for compression, make in BOMBS:
        files.append(tmp_path / compression.name)
        files[-1].write_bytes(raw_batch(make(), attributes=compression, record_count=100))
    done = subprocess.run(
        [sys.executable, "-c", DECODE_ALL, *map(str, files)], capture_output=True, text=True, check=True
    )
    *refusals, growth_kilobytes = done.stdout.split()
    assert refusals == ["refused"] * len(BOMBS)
    assert int(growth_kilobytes) < 8 * 1024


def test_a_bound_beyond_the_format_is_the_formats(codec: ModuleType) -> None:
    batch = raw_batch(compress(Compression.ZSTD, raw_record()), attributes=Compression.ZSTD)
    assert len(codec.decode_batch(batch, decompressed_bytes_max=2**40)) == 1


@pytest.mark.parametrize("compression", REAL)
def test_damage_anywhere_is_an_error_or_other_bytes_never_a_crash(compression: Compression) -> None:
    body = compress(compression, bytes(range(256)) * 20)
    for position in range(len(body)):
        damaged = bytearray(body)
        damaged[position] ^= 0xFF
        try:
            decompress(compression, damaged, bytes_max=MEBIBYTE)
        except (CorruptBatch, BatchTooLarge):
            continue


@pytest.mark.parametrize("compression", REAL)
def test_a_cut_body_is_corrupt(compression: Compression) -> None:
    body = compress(compression, random.Random(1).randbytes(3000) * 2)
    for size in range(1, len(body), 7):
        with pytest.raises(CorruptBatch):
            decompress(compression, body[:size], bytes_max=MEBIBYTE)


@pytest.mark.parametrize("compression", [Compression.GZIP, Compression.LZ4, Compression.ZSTD])
def test_bytes_after_the_compressed_body_are_corrupt(compression: Compression) -> None:
    with pytest.raises(CorruptBatch):
        decompress(compression, compress(compression, b"body") + b"garbage", bytes_max=MEBIBYTE)


@pytest.mark.parametrize(
    ("blocks", "reason"),
    [
        (b"\x00\x00", "ends within a snappy block's length"),
        (b"\xff\xff\xff\xff", "claims -1 of 0 bytes"),
        (b"\x00\x00\x00\x05abc", "claims 5 of 3 bytes"),
        (b"\x00\x00\x00\x00", "does not decompress"),
        (b"\x00\x00\x00\x06\xff\xff\xff\xff\x0f\x00", "claim to unpack to 4294967295"),
    ],
)
def test_blocks_of_snappy_that_lie_are_corrupt(blocks: bytes, reason: str) -> None:
    with pytest.raises(CorruptBatch, match=reason):
        decompress(Compression.SNAPPY, XERIAL_HEADER + blocks, bytes_max=MEBIBYTE)


def test_an_unknown_version_of_the_snappy_frame_is_corrupt() -> None:
    with pytest.raises(CorruptBatch, match="unknown version"):
        decompress(Compression.SNAPPY, XERIAL_HEADER[:-1] + b"\x02", bytes_max=MEBIBYTE)
