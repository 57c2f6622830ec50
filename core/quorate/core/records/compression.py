"""Compress and decompress the body of a batch, within a bound.

Problem: a body of a few kilobytes may claim, or really unpack to, gigabytes. A decoder must give a
typed error instead, and must not have used the memory by then.

Invariant: output goes only into buffers allocated here, none larger than the bound; the library is
never asked to allocate the output itself. Where the format states the size it is believed only as
a first guess for the buffer. If the guess was too small the work is done again with a buffer four
times as large, up to the bound; beyond it is BatchTooLarge.

Rejected: the streaming decompressors, which are fed a bounded piece of input but return whatever it
unpacks to (128 KB from four bytes of zstd), and buffers of the bound's size from the start, which
would cost more to clear than a small batch takes to decode.

zstd keeps a window beside the output, at most 128 MiB of address space, a limit of the library's;
of it only what has been unpacked is ever touched.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import Final

import cramjam

from quorate.core.records.format import INT32_MAX, Buffer, Compression
from quorate.errors import BatchTooLarge, CorruptBatch

__all__ = ["compress", "decompress"]

_INT32: Final = Struct(">i")
_GZIP_SIZE: Final = Struct("<I")

# Kafka's Java client frames snappy as snappy-java's stream does: this header, then blocks of
# at most 32 KB of input, each preceded by its compressed length.
_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER: Final = _XERIAL_MAGIC + _INT32.pack(1) + _INT32.pack(1)
_XERIAL_BLOCK_BYTES: Final = 32 * 1024

_GZIP_LEVEL: Final = 6
_LZ4_LEVEL: Final = 1
_ZSTD_LEVEL: Final = 3
_ZSTD_FRAME_HEADER_BYTES_MAX: Final = 18
_FIRST_GUESS_RATIO: Final = 4
_FIRST_GUESS_BYTES_MIN: Final = 4096
#: the most one byte of raw snappy can unpack to is 64 / 3; a larger claim is a lie
_SNAPPY_RATIO_MAX: Final = 22

#: what the library says when the output buffer is full: it has no error type of its own for it
_OUTPUT_FULL: Final = "failed to write whole buffer"


def compress(compression: Compression, body: Buffer) -> bytes:
    """The body of a batch as `compression` stores it."""
    match compression:
        case Compression.NONE:
            return bytes(body)
        case Compression.GZIP:
            return bytes(cramjam.gzip.compress(body, level=_GZIP_LEVEL))
        case Compression.SNAPPY:
            return _compress_xerial(body)
        case Compression.LZ4:
            # Kafka's reader knows only independent blocks.
            compressor = cramjam.lz4.Compressor(level=_LZ4_LEVEL, content_checksum=False, block_linked=False)
            compressor.compress(bytes(body))
            return bytes(compressor.finish())
        case Compression.ZSTD:
            return bytes(cramjam.zstd.compress(body, level=_ZSTD_LEVEL))


def decompress(compression: Compression, body: Buffer, *, bytes_max: int) -> Buffer:
    """Undo `compress`. Raises CorruptBatch, or BatchTooLarge beyond `bytes_max`."""
    bytes_max = min(bytes_max, INT32_MAX)
    match compression:
        case Compression.NONE:
            return body
        case Compression.GZIP:
            return _unpack(cramjam.gzip.decompress_into, body, _gzip_guess(body), bytes_max)
        case Compression.SNAPPY:
            return _decompress_snappy(memoryview(body), bytes_max)
        case Compression.LZ4:
            return _unpack(cramjam.lz4.decompress_into, body, 0, bytes_max)
        case Compression.ZSTD:
            return _unpack(cramjam.zstd.decompress_into, body, _zstd_guess(body), bytes_max)


def _unpack(
    decompress_into: Callable[[Buffer, bytearray], int], body: Buffer, guess: int, bytes_max: int
) -> memoryview:
    capacity = min(max(guess, len(body) * _FIRST_GUESS_RATIO, _FIRST_GUESS_BYTES_MIN), bytes_max)
    while True:
        output = bytearray(capacity)
        try:
            size = decompress_into(body, output)
        except cramjam.DecompressionError as error:
            if _OUTPUT_FULL not in str(error):
                raise CorruptBatch(f"the batch does not decompress: {error}") from error
            if capacity == bytes_max:
                raise _too_large(bytes_max) from error
            capacity = min(capacity * _FIRST_GUESS_RATIO, bytes_max)
        else:
            return memoryview(output)[:size]


def _too_large(bytes_max: int) -> BatchTooLarge:
    return BatchTooLarge(
        f"the batch decompresses to more than {bytes_max} bytes", decompressed_bytes_max=bytes_max
    )


def _gzip_guess(body: Buffer) -> int:
    """A gzip member ends with its size. One that lies costs a buffer no larger than the bound."""
    if len(body) < _GZIP_SIZE.size:
        return 0
    size: int = _GZIP_SIZE.unpack_from(body, len(body) - _GZIP_SIZE.size)[0]
    return size


def _zstd_guess(body: Buffer) -> int:
    """What a zstd frame states as its content's size, if it does: RFC 8878, section 3.1.1.1."""
    if len(body) < _ZSTD_FRAME_HEADER_BYTES_MAX:
        return 0
    descriptor = body[4]
    is_single_segment = bool(descriptor & 0x20)
    size_bytes = (int(is_single_segment), 2, 4, 8)[descriptor >> 6]
    window_bytes = 0 if is_single_segment else 1
    start = 5 + window_bytes + (0, 1, 2, 4)[descriptor & 0x03]
    size = int.from_bytes(body[start : start + size_bytes], "little")
    return size + 256 if size_bytes == 2 else size


def _compress_xerial(body: Buffer) -> bytes:
    view = memoryview(body)
    parts = [_XERIAL_HEADER]
    for start in range(0, len(view), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(view[start : start + _XERIAL_BLOCK_BYTES]))
        parts += (_INT32.pack(len(block)), block)
    return b"".join(parts)


def _decompress_snappy(body: memoryview, bytes_max: int) -> memoryview:
    blocks = _xerial_blocks(body) if bytes(body[: len(_XERIAL_MAGIC)]) == _XERIAL_MAGIC else [body]
    try:
        sizes = [_snappy_size(block) for block in blocks]
        if sum(sizes) > bytes_max:
            raise _too_large(bytes_max)
        output = memoryview(bytearray(sum(sizes)))
        start = 0
        for block, size in zip(blocks, sizes, strict=True):
            cramjam.snappy.decompress_raw_into(block, output[start : start + size])
            start += size
    except cramjam.DecompressionError as error:
        raise CorruptBatch(f"the batch does not decompress: {error}") from error
    return output


def _snappy_size(block: memoryview) -> int:
    size = cramjam.snappy.decompress_raw_len(block)
    if size > len(block) * _SNAPPY_RATIO_MAX:
        raise CorruptBatch(f"{len(block)} bytes of snappy claim to unpack to {size}")
    return size


def _xerial_blocks(body: memoryview) -> list[memoryview]:
    if bytes(body[: len(_XERIAL_HEADER)]) != _XERIAL_HEADER:
        raise CorruptBatch("the batch has an unknown version of snappy's framing")
    blocks = []
    position = len(_XERIAL_HEADER)
    while position < len(body):
        if len(body) - position < _INT32.size:
            raise CorruptBatch("the batch ends within a snappy block's length")
        (length,) = _INT32.unpack_from(body, position)
        position += _INT32.size
        if not 0 <= length <= len(body) - position:
            raise CorruptBatch(f"a snappy block claims {length} of {len(body) - position} bytes")
        blocks.append(body[position : position + length])
        position += length
    return blocks
