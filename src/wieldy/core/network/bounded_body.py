"""Read the body of an HTTP answer up to a limit, which also holds for the unpacked body."""

import zlib

import httpx2

from wieldy.core.errors import ServiceError

# Only the encodings that we ask for are accepted. Both can be unpacked up to a limit.
ENCODINGS = "gzip, deflate"
_PLAIN = frozenset(("", "identity"))
# How many encodings one body may have; more than this is an attack.
_MAX_LAYERS = 2
# How many gzip files one body may consist of. To begin a file takes longer than to send it.
_MAX_PARTS = 1000
# Adding 32 to the window makes zlib detect a gzip or zlib header by itself.
_ANY_HEADER = zlib.MAX_WBITS | 32
# The first bytes show whether there is a header.
_HEADER_BYTES = 2
_GZIP = b"\x1f\x8b"


async def read_body(answer: httpx2.Response, largest: int) -> bytes:
    """The decoded body; `ServiceError` if it is too large or has an encoding not asked for.

    No more than the limit is ever unpacked, so a small answer that would unpack to gigabytes
    costs no more than the largest allowed one. Nor is more than the limit read, since gigabytes
    can unpack to nothing.
    """
    packing = Packing(answer.headers.get("content-encoding", ""))
    chunks, read, size = [], 0, 0
    async for packed in answer.aiter_raw():
        chunk = packing.unpack(packed, largest)
        read, size = read + len(packed), size + len(chunk)
        if max(read, size) > largest:
            raise _size_error(largest)
        chunks.append(chunk)
    packing.check_end()
    return b"".join(chunks)


class Packing:
    """How a body is packed, undone chunk by chunk; `ServiceError` if it was not asked for.

    Args:
        header: what the answer says about it.
    """

    def __init__(self, header: str) -> None:
        self._layers = _find_layers(header)

    def unpack(self, chunk: bytes, largest: int) -> bytes:
        """Unpack a chunk; `ServiceError` if that gives more than the limit."""
        for layer in self._layers:
            chunk = layer.unpack(chunk, largest)
        return chunk

    def check_end(self) -> None:
        """Raise `ServiceError` unless the packed bytes have come to their end."""
        if not all(layer.complete for layer in self._layers):
            raise ServiceError("the answer can't be unpacked: its end is missing")


def _size_error(largest: int) -> ServiceError:
    return ServiceError(f"the answer is larger than {largest:,} bytes")


def _find_layers(header: str) -> "list[_Layer]":
    named = [each.strip().lower() for each in header.split(",")]
    packed = [each.removeprefix("x-") for each in named if each not in _PLAIN]
    unknown = [each for each in packed if each not in ("gzip", "deflate")]
    if unknown or len(packed) > _MAX_LAYERS:
        raise ServiceError(f"the answer is encoded as {header[:60]!r}, which was not asked for")
    # The encoding that was applied last is undone first.
    return [_Layer(each) for each in reversed(packed)]


class _Layer:
    """One encoding of a body, undone chunk by chunk.

    A gzip file can follow another one, and both are parts of the body. Whatever else follows
    the end of a part is no part of the body.
    """

    def __init__(self, kind: str) -> None:
        self._stream = zlib.decompressobj(_ANY_HEADER)
        self._raw_allowed = kind == "deflate"
        self._parts = 0
        self._between = True
        self._head = b""

    @property
    def complete(self) -> bool:
        """Whether the packed bytes have come to their end, or there are none."""
        return self._between and (self._parts > 0 or not self._head)

    def unpack(self, chunk: bytes, largest: int) -> bytes:
        """Unpack a chunk; `ServiceError` if that gives more than the limit."""
        chunk, self._head = self._head + chunk, b""
        found = b""
        while chunk and len(found) <= largest:
            if self._between and not self._begin_part(chunk):
                break
            found += self._unpack_part(chunk, largest + 1 - len(found))
            self._between = self._stream.eof
            chunk = self._stream.unused_data
        if len(found) > largest:
            raise _size_error(largest)
        return found

    def _begin_part(self, chunk: bytes) -> bool:
        if len(chunk) < _HEADER_BYTES:
            self._head = chunk
            return False
        if self._parts:
            if not chunk.startswith(_GZIP):
                return False
            self._stream = zlib.decompressobj(_ANY_HEADER)
        self._parts += 1
        if self._parts > _MAX_PARTS:
            raise ServiceError(f"the answer is packed in more than {_MAX_PARTS:,} parts")
        return True

    def _unpack_part(self, chunk: bytes, most: int) -> bytes:
        fresh = self._between and self._parts == 1
        try:
            return self._stream.decompress(chunk, most)
        except zlib.error as error:
            if not (fresh and self._raw_allowed):
                raise ServiceError(f"the answer can't be unpacked: {error}") from None
            # Some servers leave out the zlib header of "deflate".
            self._stream = zlib.decompressobj(-zlib.MAX_WBITS)
            self._raw_allowed = False
            return self._unpack_part(chunk, most)
