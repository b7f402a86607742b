"""The body of an HTTP answer, read up to a limit that also holds for what it unpacks to."""

import zlib
from collections.abc import AsyncIterator

import httpx2

from wieldy.core.errors import ServiceError

# What is asked for, and so all that is understood. Both unpack as far as one lets them.
ENCODINGS = "gzip, deflate"
_PLAIN = frozenset(("", "identity"))
# How many times one body may be packed; more is nobody's mistake.
_MOST_LAYERS = 2
# Whether a header is there is seen by its first bytes.
_HEADER_BYTES = 2


async def read_body(answer: httpx2.Response, largest: int) -> bytes:
    """The decoded body; `ServiceError` where it is larger, or packed in a way not asked for.

    No more than the limit is ever unpacked: a small answer that stands for gigabytes
    costs as much as one that is as large as it may be.
    """
    layers = _find_layers(answer.headers.get("content-encoding", ""))
    chunks, size = [], 0
    async for chunk in _unpacked(answer.aiter_raw(), layers, largest):
        size += len(chunk)
        if size > largest:
            raise ServiceError(f"the answer is larger than {largest:,} bytes")
        chunks.append(chunk)
    return b"".join(chunks)


def _find_layers(header: str) -> "list[_Layer]":
    named = [each.strip().lower() for each in header.split(",")]
    packed = [each.removeprefix("x-") for each in named if each not in _PLAIN]
    unknown = [each for each in packed if each not in ("gzip", "deflate")]
    if unknown or len(packed) > _MOST_LAYERS:
        raise ServiceError(f"the answer is encoded as {header[:60]!r}, which was not asked for")
    # The last that was applied is the first to be undone.
    return [_Layer(each) for each in reversed(packed)]


async def _unpacked(
    chunks: AsyncIterator[bytes], layers: "list[_Layer]", largest: int
) -> AsyncIterator[bytes]:
    async for chunk in chunks:
        for layer in layers:
            chunk = layer.unpack(chunk, largest)
        if chunk:
            yield chunk


class _Layer:
    """One packing of a body, undone chunk by chunk."""

    def __init__(self, kind: str) -> None:
        # 32 more than the window finds out by itself whether a header of gzip or zlib is there.
        self._stream = zlib.decompressobj(zlib.MAX_WBITS | 32)
        self._raw_allowed = kind == "deflate"
        self._begun = False
        self._head = b""

    def unpack(self, chunk: bytes, largest: int) -> bytes:
        """What a chunk stands for; one byte over the limit at most."""
        if not self._begun:
            chunk = self._head + chunk
            if len(chunk) < _HEADER_BYTES:
                self._head = chunk
                return b""
        try:
            found = self._stream.decompress(chunk, largest + 1)
        except zlib.error as error:
            if self._begun or not self._raw_allowed:
                raise ServiceError(f"the answer can't be unpacked: {error}") from None
            # Some servers leave out the header that "deflate" ought to have.
            self._stream = zlib.decompressobj(-zlib.MAX_WBITS)
            self._raw_allowed = False
            return self.unpack(chunk, largest)
        self._begun, self._head = True, b""
        if self._stream.unconsumed_tail:
            raise ServiceError(f"the answer is larger than {largest:,} bytes")
        return found
