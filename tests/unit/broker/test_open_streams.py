"""The streams that the stop of a node has to reach."""

from __future__ import annotations

from quorate.broker.handlers.open_streams import OpenStreams


class _Stream:
    is_stopped = False

    def stop_reading(self) -> None:
        self.is_stopped = True


def test_stop_reaches_streams_that_are_open_and_those_that_come_later() -> None:
    streams: OpenStreams[_Stream] = OpenStreams()
    closed, before, after = _Stream(), _Stream(), _Stream()
    streams.add(closed)
    streams.add(before)
    streams.discard(closed)
    streams.stop()
    streams.add(after)
    assert [each.is_stopped for each in (closed, before, after)] == [False, True, True]
