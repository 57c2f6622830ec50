"""The state machine that the simulated quorum replicates: a few registers, and a digest of what it applied.

Commands carry a client's id and sequence number, and a client's command is executed once however often it was
proposed. A retry after an unknown outcome is therefore safe, as it has to be (rule 39).
"""

from __future__ import annotations

import json
import zlib

from quorate.metadata.raft.entries import Entry, EntryKind

__all__ = ["RegisterMachine", "encode_command"]


def encode_command(*, client: int, sequence: int, attempt: int, register: int) -> bytes:
    """Write (client, sequence) to a register. No two attempts are the same bytes."""
    return b"%d %d %d %d" % (client, sequence, attempt, register)


class RegisterMachine:
    def __init__(self) -> None:
        self.applied_index = 0
        #: of every entry applied so far, in order
        self.digest = 0
        #: register -> the command that wrote it last
        self._registers: dict[int, tuple[int, int]] = {}
        #: client -> the sequence number of the last command executed for it
        self._executed: dict[int, int] = {}

    def apply(self, entry: Entry) -> tuple[int, tuple[int, int]] | None:
        """Returns the register and the value that were written, if any."""
        assert entry.index == self.applied_index + 1, f"applied {entry.index} after {self.applied_index}"
        self.applied_index = entry.index
        self.digest = zlib.crc32(entry.data, zlib.crc32(b"%d %d" % (entry.term, entry.kind), self.digest))
        if entry.kind is not EntryKind.COMMAND:
            return None
        client, sequence, _attempt, register = map(int, entry.data.split())
        if sequence <= self._executed.get(client, -1):
            return None
        self._executed[client] = sequence
        self._registers[register] = (client, sequence)
        return register, (client, sequence)

    def read(self, register: int) -> tuple[int, int] | None:
        return self._registers.get(register)

    def save(self) -> bytes:
        registers = [[register, *value] for register, value in sorted(self._registers.items())]
        state = [self.applied_index, self.digest, registers, sorted(self._executed.items())]
        return json.dumps(state, separators=(",", ":")).encode()

    @classmethod
    def load(cls, data: bytes) -> RegisterMachine:
        machine = cls()
        machine.applied_index, machine.digest, registers, executed = json.loads(data)
        machine._registers = {register: (client, sequence) for register, client, sequence in registers}
        machine._executed = dict(executed)
        return machine
