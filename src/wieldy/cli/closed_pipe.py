"""Standard streams whose reader may leave, or whose disk may be full, without a traceback."""

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO


class QuietStream(io.TextIOWrapper):
    """A text stream that ends the command when nobody reads it any more: `wieldy log | head -1`.

    That is no error, so the exit code is 0. If the text can't be written, for example because the
    disk is full, it is 1.
    """

    def write(self, text: str, /) -> int:
        """Write, unless the reader has left."""
        with self._ending_quietly():
            return super().write(text)

    def flush(self) -> None:
        """Hand over what was written, unless the reader has left."""
        with self._ending_quietly():
            super().flush()

    @contextmanager
    def _ending_quietly(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            # The rest of the buffer is written to nowhere, so that closing the stream can't fail.
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.fileno())
            os.close(nowhere)
            if isinstance(error, BrokenPipeError):
                raise SystemExit(0) from None
            raise SystemExit(f"The output can't be written: {error.strerror}.") from None


def quiet_stream(number: int, like: TextIO, *, owned: bool) -> QuietStream:
    """A stream over a file descriptor, with the encoding and the buffering of another stream.

    A descriptor that is `owned` is closed with the stream.
    """
    return QuietStream(
        open(number, "wb", closefd=owned),
        encoding=like.encoding,
        errors=like.errors,
        line_buffering=getattr(like, "line_buffering", False),
    )


def make_streams_quiet() -> None:
    """Make the command end silently when the reader of its output leaves."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        # A stream that was closed when the command began is None.
        if stream is not None:
            setattr(sys, name, quiet_stream(stream.fileno(), stream, owned=False))
