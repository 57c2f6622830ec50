"""A snapshot brings back an equal image, or is refused."""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.errors import InconsistentMetadata, UnsupportedFeatureLevel
from quorate.metadata.delta import advance, apply_batch
from quorate.metadata.image import EMPTY_IMAGE, MetadataImage
from quorate.metadata.snapshot import (
    SnapshotLoader,
    decode_snapshot,
    encode_snapshot,
    iter_snapshot_records,
    snapshot_chunks,
)
from quorate.v1.controller_pb2 import MetadataSnapshotChunk
from quorate.v1.metadata_pb2 import SnapshotRecord
from tests.unit.metadata.metadata_walk import Walk, a_large_image, a_walk


def loaded(chunks: Iterator[MetadataSnapshotChunk] | list[MetadataSnapshotChunk]) -> MetadataImage:
    loader = SnapshotLoader()
    *_, image = [loader.add(chunk) for chunk in chunks]
    assert image is not None
    return image


@given(st.randoms(use_true_random=False), st.integers(0, 30), st.integers(0, 30))
async def test_snapshot_and_the_tail_lead_to_the_same_image_as_the_whole_log(
    rng: random.Random, steps_before: int, steps_after: int
) -> None:
    walk = Walk(rng)
    for _ in range(steps_before):
        walk.step()
    at = walk.image.offset
    image = await decode_snapshot(await encode_snapshot(walk.image))
    assert image == walk.image
    for _ in range(steps_after):
        walk.step()
    for offset in range(at + 1, walk.image.offset + 1):
        batch = walk.batches.get(offset)
        image = advance(image, offset) if batch is None else apply_batch(image, batch.records, offset)
        assert image == walk.images[offset]


async def test_empty_image_has_a_snapshot_as_any_other() -> None:
    assert await decode_snapshot(await encode_snapshot(EMPTY_IMAGE)) == EMPTY_IMAGE


async def test_large_snapshot_is_written_and_read_in_many_turns_of_the_loop() -> None:
    image = a_large_image()
    turns = 0

    async def count_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.ensure_future(count_turns())
    encoded = await encode_snapshot(image)
    chunks = len(list(snapshot_chunks(image)))
    assert turns >= chunks > 4
    turns = 0
    assert await decode_snapshot(encoded) == image
    assert turns >= chunks
    counting.cancel()


def test_bytes_of_a_snapshot_do_not_depend_on_the_order_of_hashes() -> None:
    program = (
        "import asyncio, hashlib\n"
        "from quorate.metadata.snapshot import encode_snapshot\n"
        "from tests.unit.metadata.metadata_walk import a_large_image, a_walk\n"
        "for image in a_walk(5).image, a_large_image():\n"
        "    print(hashlib.sha256(asyncio.run(encode_snapshot(image))).hexdigest())"
    )
    printed = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed},
            cwd=Path(__file__).parents[3],
            stdout=subprocess.PIPE,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(printed) == 1


def test_feature_level_comes_first() -> None:
    first = next(iter_snapshot_records(a_walk(1).image))
    assert first.metadata.feature_level.level == 1


async def test_snapshot_that_is_cut_anywhere_is_refused() -> None:
    encoded = await encode_snapshot(a_walk(2).image)
    for length in range(0, len(encoded), 97):
        with pytest.raises(InconsistentMetadata):
            await decode_snapshot(encoded[:length])


async def test_snapshot_with_more_behind_its_end_is_refused() -> None:
    encoded = await encode_snapshot(a_walk(2).image)
    with pytest.raises(InconsistentMetadata, match="after its last"):
        await decode_snapshot(encoded + encoded)
    with pytest.raises(InconsistentMetadata, match="cut short"):
        await decode_snapshot(encoded + b"\0")


async def test_flipped_bit_never_yields_another_image() -> None:
    image = a_walk(3).image
    encoded = await encode_snapshot(image)
    rng = random.Random(1)
    for _ in range(300):
        damaged = bytearray(encoded)
        damaged[rng.randrange(len(damaged))] ^= 1 << rng.randrange(8)
        try:
            loaded_image = await decode_snapshot(bytes(damaged))
        except (InconsistentMetadata, UnsupportedFeatureLevel):
            continue
        # The offset is not part of the digest, and broker epochs do not follow from it.
        assert loaded_image.digest == image.digest
        assert loaded_image.topics == image.topics
        assert loaded_image.brokers == image.brokers


def test_missing_record_is_noticed() -> None:
    [chunk] = snapshot_chunks(a_walk(4).image)
    del chunk.records[-1]
    with pytest.raises(InconsistentMetadata, match="records"):
        loaded([chunk])


def test_altered_record_is_noticed() -> None:
    [chunk] = snapshot_chunks(a_walk(4).image)
    [broker, *_] = [record.broker for record in chunk.records if record.HasField("broker")]
    broker.is_fenced = not broker.is_fenced
    with pytest.raises(InconsistentMetadata, match="digest"):
        loaded([chunk])


def test_chunks_out_of_order_are_noticed() -> None:
    chunks = list(snapshot_chunks(a_large_image()))
    with pytest.raises(InconsistentMetadata):
        loaded([chunks[0], *chunks[2:]])
    with pytest.raises(InconsistentMetadata, match="header"):
        loaded(chunks[1:])
    with pytest.raises(InconsistentMetadata, match="header"):
        loaded([chunks[0], *chunks])


def test_record_of_an_unknown_kind_stops_the_node() -> None:
    [chunk] = snapshot_chunks(a_walk(4).image)
    chunk.records.append(SnapshotRecord())
    with pytest.raises(UnsupportedFeatureLevel):
        loaded([chunk])


def test_unknown_field_in_a_snapshot_stops_the_node() -> None:
    [chunk] = snapshot_chunks(a_walk(4).image)
    [broker, *_] = [record.broker for record in chunk.records if record.HasField("broker")]
    broker.registration.MergeFromString(b"\xf8\x3f\x01")
    with pytest.raises(UnsupportedFeatureLevel):
        loaded([chunk])
