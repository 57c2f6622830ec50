"""gRPC's messages in a stream of bytes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.rpc.lean.messages import BrokenMessage, MessageReader, MessageTooLarge
from quorate.rpc.lean.wire import message_prefix


@given(st.lists(st.binary(max_size=50), max_size=8), st.lists(st.integers(1, 60), max_size=40))
def test_messages_are_the_same_however_they_are_cut(messages: list[bytes], sizes: list[int]) -> None:
    content = b"".join(message_prefix(len(each)) + each for each in messages)
    reader, at, found = MessageReader(100), 0, []
    for size in [*sizes, len(content)]:
        part = memoryview(content)[at : at + size]
        found += [bytes(each) for each in reader.feed(part)]
        at += size
    assert found == messages
    assert reader.is_between_messages


def test_message_that_lies_whole_in_what_arrived_is_not_copied() -> None:
    content = bytearray(message_prefix(5) + b"hello")
    [found] = MessageReader(100).feed(memoryview(content))
    content[5:] = b"world"
    assert bytes(found) == b"world"


def test_what_is_missing_of_a_message_is_known_once_its_prefix_is_there() -> None:
    reader = MessageReader(1_000)
    content = memoryview(message_prefix(100) + b"x" * 100)
    assert list(reader.feed(content[:4])) == []
    assert (reader.missing_bytes, reader.collected_bytes) == (0, 4)
    assert list(reader.feed(content[4:25])) == []
    assert (reader.missing_bytes, reader.collected_bytes, reader.begun_bytes) == (80, 25, 105)
    assert len(list(reader.feed(content[25:]))) == 1
    assert (reader.missing_bytes, reader.collected_bytes) == (0, 0)


@pytest.mark.parametrize("cut", [2, 5, 7])
def test_message_that_is_too_large_is_refused_before_it_comes(cut: int) -> None:
    content = memoryview(message_prefix(101) + b"xxx")
    reader = MessageReader(100)
    parts = [content[:cut], content[cut:]]
    with pytest.raises(MessageTooLarge) as caught:
        [list(reader.feed(part)) for part in parts]
    assert caught.value.message_bytes == 101


def test_message_that_says_it_is_compressed_is_refused() -> None:
    with pytest.raises(BrokenMessage):
        list(MessageReader(100).feed(memoryview(b"\x01" + message_prefix(1)[1:] + b"x")))
