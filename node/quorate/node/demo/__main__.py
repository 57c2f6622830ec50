"""The demonstration: one node, killed without warning while it is written to, three times.

Real processes, real files, real kill -9. Exit status 0 only if the proof held.
"""

from __future__ import annotations

import asyncio
import json
import random
import shutil
import sys
import tempfile
from dataclasses import dataclass, field
from typing import Any, Final

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from quorate.client.connection import connect
from quorate.core.clock import SystemClock
from quorate.core.logging import LogLevel, configure_logging
from quorate.core.os_disk import OsDisk
from quorate.node.child import ChildNode
from quorate.node.demo.ledger import Ledger, Proof
from quorate.node.demo.workload import TOPIC, create_topic, read_partition, write_until_it_dies
from quorate.node.interruption import INTERRUPTED_STATUS, run_interruptible
from quorate.storage.inspect import verify

__all__ = ["main"]

_PARTITIONS: Final = 4
_KILLS: Final = 3
#: how long each round writes before the kill, chosen at random between the two
_ROUND_S: Final = (0.8, 1.6)
_FAULTS_SHOWN_MAX: Final = 20


@dataclass(slots=True)
class _Demo:
    console: Console
    directory: str
    clock: SystemClock = field(default_factory=SystemClock)
    ledgers: list[Ledger] = field(default_factory=lambda: [Ledger(number) for number in range(_PARTITIONS)])

    def say(self, text: str) -> None:
        self.console.print(text, highlight=False, soft_wrap=True)

    @property
    def acknowledged_count(self) -> int:
        return sum(len(ledger.acknowledged) for ledger in self.ledgers)

    async def run(self) -> bool:
        self.say(
            "[bold]Quorate[/]: a node is killed while it is written to. Nothing acknowledged may be lost."
        )
        self.say(f"  topic [cyan]{TOPIC}[/], {_PARTITIONS} partitions, acks=all, durability=fsync:")
        self.say("  an answer means that the records are on the device")
        node = await self._start()
        try:
            async with connect(node.bootstrap) as connection:
                await create_topic(connection, _PARTITIONS)
            for kill in range(1, _KILLS + 1):
                await self._write_and_kill(node, kill)
                node = await self._start()
                self._tell_recovery(node)
            proof = await self._prove(node)
            status = await node.stop()
        finally:
            await node.end()
        self.say(f"[green]stop[/]    SIGTERM, exit status {status}")
        files_are_sound = self._verify_files()
        holds = not proof.faults and files_are_sound and status == 0 and self.acknowledged_count > 0
        if holds:
            self.say(f"[bold green]The proof holds[/]: {_KILLS} kills, nothing lost, nothing invented.")
        else:
            self.say(f"[bold red]The proof FAILED[/]: the files are kept in {self.directory}")
        return holds

    async def _start(self) -> ChildNode:
        began = self.clock.monotonic()
        settings = {
            "node.id": "1",
            "data.dir": f"{self.directory}/data",
            "listeners": "127.0.0.1:0",
            "logging.format": "json",
        }
        node = await ChildNode.start(settings, log_file=f"{self.directory}/node.log")
        seconds = self.clock.monotonic() - began
        self.say(f"[green]start[/]   process {node.pid} serves on {node.bootstrap} after {seconds:.2f} s")
        return node

    async def _write_and_kill(self, node: ChildNode, kill: int) -> None:
        before = self.acknowledged_count
        unanswered_before = sum(len(ledger.unknown) for ledger in self.ledgers)
        seconds = random.uniform(*_ROUND_S)
        async with connect(node.bootstrap) as connection:
            writing = asyncio.create_task(write_until_it_dies(connection, self.ledgers, self.clock))
            await self._watch(seconds, before)
            await node.kill()
            await writing
        self.say(
            f"[cyan]write[/]   {self.acknowledged_count - before:,} records acknowledged in {seconds:.1f} s"
        )
        on_the_way = sum(len(ledger.unknown) for ledger in self.ledgers) - unanswered_before
        self.say(
            f"[red]kill -9[/] process {node.pid} ({kill} of {_KILLS}), {on_the_way:,} records on their way"
        )

    async def _watch(self, seconds: float, before: int) -> None:
        """A live count on a terminal; nothing elsewhere."""
        columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
        end = self.clock.monotonic() + seconds
        hidden = not self.console.is_terminal
        with Progress(*columns, console=self.console, transient=True, disable=hidden) as bar:
            task = bar.add_task("writing")
            while (left := end - self.clock.monotonic()) > 0:
                await self.clock.sleep(min(left, 0.1))
                bar.update(task, description=f"{self.acknowledged_count - before:,} records acknowledged")

    def _tell_recovery(self, node: ChildNode) -> None:
        event = _last_event(node.log_file, "logs_opened")
        self.say(
            f"[green]recover[/] {event['logs']} logs, {event['scanned_bytes']:,} bytes checked, "
            f"{event['cut_bytes']:,} bytes of torn batches cut"
        )

    async def _prove(self, node: ChildNode) -> Proof:
        proof = Proof()
        async with connect(node.bootstrap) as connection:
            for ledger in self.ledgers:
                records = [record async for record in read_partition(connection, ledger.partition)]
                proof.compare(ledger, records)
        unknown = sum(len(ledger.unknown) for ledger in self.ledgers)
        self.say(f"[green]read[/]    {proof.records:,} records, from the beginning to the end")
        if not proof.faults:
            self.say(f"  {self.acknowledged_count:,} were acknowledged: each is at its offset, byte for byte")
            self.say(f"  {unknown:,} were sent and not answered: {proof.unknown_found:,} of them are there")
        for fault in proof.faults[:_FAULTS_SHOWN_MAX]:
            self.say(f"[red]fault[/]   {fault}")
        return proof

    def _verify_files(self) -> bool:
        """What ``quorate log verify`` does, on the files as they lie."""
        disk = OsDisk(read_only=True)
        try:
            reports = list(verify(disk, f"{self.directory}/data"))
        finally:
            disk.close()
        for report in reports:
            for problem in report.problems:
                self.say(f"  {problem.kind.value}: {problem.path}: {problem.reason}")
        batches = sum(report.batches for report in reports)
        are_sound = not any(report.is_damaged for report in reports)
        state = "sound" if are_sound else "[red]DAMAGED[/]"
        self.say(f"[green]verify[/]  {len(reports)} logs on disk, {batches:,} batches: {state}")
        return are_sound


def _last_event(log_file: str, name: str) -> dict[str, Any]:
    with open(log_file, encoding="utf-8") as file:
        events = [json.loads(line) for line in file if f'"event": "{name}"' in line]
    event: dict[str, Any] = events[-1]
    return event


async def _demonstrate() -> bool:
    directory = tempfile.mkdtemp(prefix="quorate-demo-")
    try:
        holds = await _Demo(Console(), directory).run()
    except asyncio.CancelledError:
        shutil.rmtree(directory)
        raise
    if holds:
        shutil.rmtree(directory)
    return holds


def main() -> int:
    # The node's death is what the demonstration is about; grpc need not remark on it.
    configure_logging(level=LogLevel.ERROR)
    try:
        return 0 if run_interruptible(_demonstrate()) else 1
    except KeyboardInterrupt:
        return INTERRUPTED_STATUS


if __name__ == "__main__":
    sys.exit(main())
