"""The result of a program: its output, its exit code, and its pictures."""

from collections.abc import Sequence
from dataclasses import dataclass

from wieldy.core.block import Block, Image, Showable, Text


@dataclass(frozen=True)
class CodeResult(Showable):
    """How a program of a code tool ended.

    Attributes:
        exit_code: Its exit code; 0 where all went well.
        stdout: What it printed.
        stderr: What it printed as errors.
        pictures: The pictures that it made or changed in its working folder.
        notes: What is to be said about files that are not shown or not kept.
    """

    exit_code: int
    stdout: str
    stderr: str
    pictures: tuple[Image, ...] = ()
    notes: tuple[str, ...] = ()

    def to_blocks(self, shown: Sequence[Block] = ()) -> tuple[Block, ...]:
        """The part that follows the output, which was shown while the program ran."""
        said = list(self.notes)
        if self.exit_code:
            said.append(f"exit code {self.exit_code}")
        closing = "".join(f"[{each}]\n" for each in said)
        return (*([Text(closing)] if closing else ()), *self.pictures)
