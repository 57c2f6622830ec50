"""What docs/operations/backup.md says: a copy of every directory while nothing runs, and records as lines."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import sys
from pathlib import Path

from quorate.client import AsyncProducer
from tests.integration.trials import Trial, trial

PAGE = Path(__file__).resolve().parents[2] / "docs" / "operations" / "backup.md"
TOPICS = {"ledger": {"partitions": 2, "replication_factor": 2}}


async def test_cluster_put_back_as_a_whole_has_all_that_was_acknowledged_before_the_copy(
    tmp_path: Path,
) -> None:
    async with trial(tmp_path / "cluster", TOPICS, brokers=2, controllers=1) as drill:
        async with drill.load() as load:
            await load.acknowledges()
        await drill.cluster.stop()
        directories = {name: Path(drill.cluster.data_dir(name)) for name in drill.cluster.names}
        for name, directory in directories.items():
            shutil.copytree(directory, tmp_path / "copies" / name)
        await drill.cluster.start()
        await drill.admin.delete_topic("ledger")
        await drill.cluster.stop()
        for name, directory in directories.items():
            shutil.rmtree(directory)
            shutil.copytree(tmp_path / "copies" / name, directory)
        await drill.cluster.start()
        proof = await drill.prove()
    assert proof.acknowledged > 0
    assert (proof.refused, proof.unknown) == (0, 0)


async def test_records_that_were_kept_as_lines_are_put_back_by_the_program_on_the_page(
    tmp_path: Path,
) -> None:
    [program] = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    async with trial(tmp_path / "cluster", {"orders": {"partitions": 2}}, brokers=1, controllers=1) as drill:
        await quorate(
            drill, "produce", "orders", "--key-separator", "=", text="a=1\nb=é\n".encode() + b"\xff=3\n"
        )
        async with AsyncProducer(drill.cluster.bootstrap) as producer:
            await producer.send(
                "orders", "4", headers=[("trace", b"\xfe"), ("trace", "text"), ("none", None)]
            )
            await producer.flush()
        kept = await quorate(drill, "consume", "orders", "--exit-at-end", "--output", "json")
        await drill.admin.delete_topic("orders")
        await drill.admin.create_topic("orders", partitions=2)
        # A full disk cut the first run short, within a character; the next one has that record again.
        lines = kept.splitlines(keepends=True)
        torn = next(line for line in lines if "é".encode() in line)
        lines.remove(torn)
        (tmp_path / "1.jsonl").write_bytes(b"".join(lines) + torn[: torn.index("é".encode()) + 1])
        # Some lines come twice after a crash.
        (tmp_path / "2.jsonl").write_bytes(b"".join(lines[-2:]) + torn)
        program = program.replace("127.0.0.1:9092", drill.cluster.bootstrap)
        files = [str(tmp_path / name) for name in ("1.jsonl", "2.jsonl")]
        await run(sys.executable, "-c", program, *files, text=b"")
        again = await quorate(drill, "consume", "orders", "--exit-at-end", "--output", "json")
        assert sorted(map(without_place, again.splitlines())) == sorted(map(without_place, kept.splitlines()))


def without_place(line: bytes) -> str:
    """A record as it was written: it is somewhere else now, in another epoch."""
    document = json.loads(line)
    return json.dumps({key: document[key] for key in ("partition", "key", "value", "headers", "timestamp")})


async def quorate(drill: Trial, *arguments: str, text: bytes = b"") -> bytes:
    command = (
        sys.executable,
        "-m",
        "quorate.console.main",
        *arguments,
        "--bootstrap",
        drill.cluster.bootstrap,
    )
    return await run(*command, text=text)


async def run(*command: str, text: bytes) -> bytes:
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, errors = await process.communicate(text)
    assert process.returncode == 0, errors.decode()
    return out
