"""The replicas as they lie on disk, read without any node's help."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import NamedTuple

from quorate.core.disk import Disk
from quorate.core.os_disk import OsDisk
from quorate.core.records import decode_batch, split_batches
from quorate.node.demo.ledger import Ledger, Proof
from quorate.storage import inspect
from quorate.storage.log_files import list_segments
from quorate.storage.partition_key import PartitionKey
from quorate.storage.segment import LOG_SUFFIX, segment_path

__all__ = ["FileProof", "prove_files"]


class FileProof(NamedTuple):
    replicas: int
    batches: int
    records: int
    faults: list[str]


def prove_files(data_dirs: dict[str, str], topic: str, ledgers: list[Ledger]) -> FileProof:
    """Every file is sound, every replica holds what the ledgers say, and all copies are the same bytes.

    The nodes have to be down, and must have been in sync before: then no replica is longer than another.
    """
    disk = OsDisk(read_only=True)
    try:
        return _prove(disk, data_dirs, topic, ledgers)
    finally:
        disk.close()


def _prove(disk: Disk, data_dirs: dict[str, str], topic: str, ledgers: list[Ledger]) -> FileProof:
    batches = 0
    faults: list[str] = []
    for name, data_dir in data_dirs.items():
        for report in inspect.verify(disk, data_dir):
            batches += report.batches
            faults += [f"{name}: {each.kind.value}: {each.path}: {each.reason}" for each in report.problems]
    replicas = {name: _replicas(disk, data_dir, topic) for name, data_dir in data_dirs.items()}
    records = 0
    for ledger in ledgers:
        copies = {name: found.get(ledger.partition, b"") for name, found in replicas.items()}
        for name in copies:
            if copies[name] != next(iter(copies.values())):
                faults.append(f"partition {ledger.partition}: the bytes on {name} differ from the others'")
        # Equal bytes hold equal records: each different copy is looked at once.
        for content in set(copies.values()):
            proof = Proof()
            proof.compare(ledger, _records(content))
            records += proof.records
            faults += proof.faults
    return FileProof(sum(map(len, replicas.values())), batches, records, faults)


def _replicas(disk: Disk, data_dir: str, topic: str) -> dict[int, bytes]:
    """partition -> its segments end to end."""
    found = {}
    for name in disk.list(data_dir):
        key = PartitionKey.parse(name)
        if key is not None and key.topic == topic:
            directory = os.path.join(data_dir, name)
            paths = [segment_path(directory, base, LOG_SUFFIX) for base in list_segments(disk, directory)]
            found[int(key.partition)] = b"".join(map(_content_of(disk), paths))
    return found
