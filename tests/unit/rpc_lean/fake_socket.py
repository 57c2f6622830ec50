"""What stands in for a link's socket where a test has none."""

from __future__ import annotations

from typing import Any

__all__ = ["FakeSocket"]


class FakeSocket:
    """Takes whatever is written, and keeps nothing of it."""

    def write(self, piece: bytes) -> None: ...
    def writelines(self, pieces: list[bytes]) -> None:
        self.write(b"".join(pieces))

    def get_write_buffer_size(self) -> int:
        return 0

    def get_extra_info(self, _name: str) -> Any:
        return None

    def set_write_buffer_limits(self, high: int) -> None: ...
    def is_closing(self) -> bool:
        return False

    def write_eof(self) -> None: ...
    def close(self) -> None: ...
    def abort(self) -> None: ...
