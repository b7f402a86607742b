"""Show a running call: text on stdout as it arrives, progress on stderr, the outcome last."""

import contextlib
import os
import sys
from collections.abc import AsyncIterator, Iterator
from typing import TextIO

from rich.progress import BarColumn, TaskID, TaskProgressColumn, TextColumn
from rich.progress import Progress as Bar
from rich.text import Text as Line

from wieldy.core.block import Block, Notice, Progress, Resource, Text
from wieldy.core.call import Outcome, Status

from . import exits, screen
from .closed_pipe import quiet_stream
from .json_views import outcome_data

_SHORT = 40


@contextlib.contextmanager
def own_stdout() -> Iterator[TextIO]:
    """Reserve stdout for the result; output of tools and their subprocesses goes to stderr."""
    out = sys.stdout
    with contextlib.redirect_stdout(sys.stderr):
        try:
            number, other = out.fileno(), sys.stderr.fileno()
        except OSError:
            # This stdout has no file descriptor, so no subprocess can write to it.
            yield out
            return
        out.flush()
        with quiet_stream(os.dup(number), out, owned=True) as own:
            os.dup2(other, number)
            try:
                yield own
            finally:
                out.flush()
                _flush_original()
                os.dup2(own.fileno(), number)


def _flush_original() -> None:
    """Write what a tool left in Python's own stdout, which may have another buffer than ours."""
    if sys.__stdout__ is not None:
        with contextlib.suppress(OSError, ValueError):
            sys.__stdout__.flush()


class Outlet:
    """Shows one call. With JSON output, only the outcome is shown."""

    def __init__(self, as_json: bool) -> None:
        self._as_json = as_json
        self._out: TextIO = sys.stdout
        self._shown = False
        self._open_line = False
        self._meter = Meter()

    async def follow(self, items: AsyncIterator[Block | Progress | Outcome]) -> Outcome:
        """Show each item as it arrives, and return the outcome."""
        usual = self._out
        try:
            with own_stdout() as self._out, contextlib.closing(self._meter):
                async for item in items:
                    if isinstance(item, Outcome):
                        return item
                    if not self._as_json:
                        self._show_item(item)
        finally:
            self._out = usual
        raise AssertionError("a stream ends with its outcome")

    def finish(self, outcome: Outcome) -> int:
        """Show the part of an outcome that was not streamed; returns the exit code."""
        if self._as_json:
            screen.put(outcome_data(outcome))
        elif outcome.ok and not self._shown:
            for block in outcome.content:
                self._show_item(block)
        self._end_line()
        if outcome.status is Status.PENDING:
            return exits.WAITING
        if not outcome.ok and not self._as_json:
            screen.fail(outcome.text)
        return exits.OK if outcome.ok else exits.FAILED

    def _show_item(self, item: Block | Progress) -> None:
        if isinstance(item, Progress):
            if self._open_line and self._meter.visible:
                # The line break goes to the terminal only, because it is not part of the text.
                sys.stderr.write("\n")
                self._open_line = False
            self._meter.show(item)
            return
        self._meter.close()
        self._shown = True
        text = _block_text(item)
        if text:
            self._out.write(screen.clean(text))
            self._out.flush()
            self._open_line = not text.endswith("\n")

    def _end_line(self) -> None:
        if self._open_line:
            self._out.write("\n")
            self._out.flush()
            self._open_line = False


class Meter:
    """A progress bar on the terminal that disappears when text is written."""

    def __init__(self) -> None:
        self._console = screen.console(stderr=True)
        self._bar: Bar | None = None
        self._task = TaskID(0)

    @property
    def visible(self) -> bool:
        return self._console.is_terminal

    def show(self, progress: Progress) -> None:
        if not self.visible:
            return
        if self._bar is None:
            columns = (BarColumn(), TaskProgressColumn(), TextColumn("{task.fields[said]}"))
            self._bar = Bar(*columns, console=self._console, transient=True)
            self._task = self._bar.add_task("", total=None, said="")
            self._bar.start()
        said = Line(screen.line(progress.message or "", _SHORT))
        if isinstance(progress, Notice):
            self._bar.update(self._task, said=said)
        else:
            self._bar.update(self._task, completed=progress.done, total=progress.total, said=said)

    def close(self) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None


def _block_text(block: Block) -> str:
    """A block as text; a block of another kind becomes its name in brackets."""
    if isinstance(block, Text):
        return block.text
    if isinstance(block, Resource) and block.text is not None:
        return block.text
    if isinstance(block, Resource):
        return f"[{block.mime_type or 'resource'}: {block.uri}]\n"
    facts = block.to_dict()
    size = len(facts.get("data", "")) * 3 // 4
    return f"[{facts.get('mimeType', block.type)}, {size:,} bytes]\n"
