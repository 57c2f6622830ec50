"""The replicas as they lie on disk, read without any node's help."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from quorate.core.disk import Disk
from quorate.core.os_disk import OsDisk
from quorate.core.records import decode_batch, split_batches
from quorate.node.demo.ledger import Ledger, Proof
from quorate.storage.inspect import ProblemKind, verify
from quorate.storage.log_files import list_segments
from quorate.storage.partition_key import PartitionKey
from quorate.storage.segment import LOG_SUFFIX, segment_path

__all__ = ["FileProof", "prove_files"]


class FileProof(NamedTuple):
    replicas: int
    batches: int
    #: of one copy
    records: int
    faults: list[str]


def prove_files(data_dirs: Mapping[str, str], topic: str, ledgers: Sequence[Ledger]) -> FileProof:
    """Every file is sound, every replica holds what the ledgers say, and all copies are the same bytes.

    For nodes that are down, and were in sync before: no replica is longer than another then.
    """
    disk = OsDisk(read_only=True)
    try:
        faults = [fault for name in data_dirs for fault in _damage(disk, name, data_dirs[name])]
        replicas = {name: _replicas(disk, data_dir, topic) for name, data_dir in data_dirs.items()}
    finally:
        disk.close()
    proof = Proof()
    batches = 0
    for ledger in ledgers:
        copies = {name: found.get(ledger.partition, b"") for name, found in replicas.items()}
        first = next(iter(copies.values()))
        for name, content in copies.items():
            batches += sum(1 for _ in split_batches(content))
            if content != first:
                faults.append(
                    f"partition {ledger.partition}: the bytes on {name} are not those of the others"
                )
        # Equal bytes hold equal records.
        proof.compare(ledger, _records(first))
    return FileProof(sum(map(len, replicas.values())), batches, proof.records, faults + proof.faults)


def _damage(disk: Disk, name: str, data_dir: str) -> Iterator[str]:
    """What ``quorate log verify`` would call damage."""
    for report in verify(disk, data_dir):
        for problem in report.problems:
            if problem.kind is ProblemKind.DAMAGE:
                yield f"{name}: {problem.path}: {problem.reason}"


def _replicas(disk: Disk, data_dir: str, topic: str) -> dict[int, bytes]:
    """partition -> its segments, end to end."""
    found = {}
    for name in disk.list(data_dir):
        key = PartitionKey.parse(name)
        if key is not None and key.topic == topic:
            directory = f"{data_dir}/{name}"
            bases = list_segments(disk, directory)
            segments = [disk.read_file(segment_path(directory, base, LOG_SUFFIX)) for base in bases]
            found[int(key.partition)] = b"".join(segments)
    return found


def _records(content: bytes) -> Iterator[tuple[int, bytes]]:
    for batch in split_batches(content):
        for record in decode_batch(batch):
            yield record.offset, record.value or b""
