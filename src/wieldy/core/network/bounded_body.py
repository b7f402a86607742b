"""Read the body of an HTTP answer up to a limit, which also holds for the unpacked body."""

import zlib
from collections.abc import AsyncIterator

import httpx2

from wieldy.core.errors import ServiceError

# Only the encodings that we ask for are accepted. Both can be unpacked up to a limit.
ENCODINGS = "gzip, deflate"
_PLAIN = frozenset(("", "identity"))
# How many encodings one body may have; more than this is an attack.
_MOST_LAYERS = 2
# The first bytes show whether there is a header.
_HEADER_BYTES = 2


async def read_body(answer: httpx2.Response, largest: int) -> bytes:
    """The decoded body; `ServiceError` if it is too large or has an encoding not asked for.

    No more than the limit is ever unpacked, so a small answer that would unpack to gigabytes
    costs no more than the largest allowed one.
    """
    layers = _find_layers(answer.headers.get("content-encoding", ""))
    chunks, size = [], 0
    async for chunk in _unpack_chunks(answer.aiter_raw(), layers, largest):
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
    # The encoding that was applied last is undone first.
    return [_Layer(each) for each in reversed(packed)]


async def _unpack_chunks(
    chunks: AsyncIterator[bytes], layers: "list[_Layer]", largest: int
) -> AsyncIterator[bytes]:
    async for chunk in chunks:
        for layer in layers:
            chunk = layer.unpack(chunk, largest)
        if chunk:
            yield chunk


class _Layer:
    """One encoding of a body, undone chunk by chunk."""

    def __init__(self, kind: str) -> None:
        # Adding 32 to the window makes zlib detect a gzip or zlib header by itself.
        self._stream = zlib.decompressobj(zlib.MAX_WBITS | 32)
        self._raw_allowed = kind == "deflate"
        self._begun = False
        self._head = b""

    def unpack(self, chunk: bytes, largest: int) -> bytes:
        """Unpack a chunk, up to one byte more than the limit."""
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
            # Some servers leave out the zlib header of "deflate".
            self._stream = zlib.decompressobj(-zlib.MAX_WBITS)
            self._raw_allowed = False
            return self.unpack(chunk, largest)
        self._begun, self._head = True, b""
        if self._stream.unconsumed_tail:
            raise ServiceError(f"the answer is larger than {largest:,} bytes")
        return found
