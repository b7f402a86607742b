"""What is written: for people in words and tables, for programs as JSON.

Whatever comes from tools, rows and servers is untrusted. For people it is shown
without the characters that a terminal obeys, and never read as markup.
"""

import json
import logging
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import typer
from pydantic_core import to_jsonable_python
from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.text import Text

from wieldy.core.visible_text import visible_line, visible_value

from . import environment

STYLES = {
    "ok": "green",
    "pending": "yellow",
    "approved": "yellow",
    "started": "cyan",
    "lost": "red",
    "changed": "yellow",
    **dict.fromkeys(("error", "denied", "expired", "timeout", "interrupted", "unknown"), "red"),
}
_GAP = "  "
_ROWS_AT_ONCE = 1000
# Control characters, what turns the direction of text or hides in it, and halves of pairs.
_UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f"
    "\ud800-\udfff\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]"
)


class _Said(logging.Handler):
    """Says what is logged, where nobody has set up anything else."""

    def emit(self, record: logging.LogRecord) -> None:
        say(self.format(record))


def ready() -> None:
    """Let the streams show a question mark instead of failing on what they can't encode.

    What is logged may hold a server's words, and is shown like them.
    """
    for stream in (sys.stdout, sys.stderr):
        getattr(stream, "reconfigure", lambda **_: None)(errors="replace")
    logging.lastResort = _Said(logging.WARNING)


def console(*, stderr: bool = False) -> Console:
    """Where something is written for people: without any style where `NO_COLOR` is set."""
    if environment.wants_color():
        return Console(stderr=stderr, highlight=False)
    return Console(stderr=stderr, highlight=False, color_system=None)


def obey_no_color() -> None:
    """Write help and usage errors without any style where `NO_COLOR` is set."""
    if not environment.wants_color():
        from typer import rich_utils  # noqa: PLC0415 - loaded where help is written, else not

        rich_utils.COLOR_SYSTEM = None


def clean(text: object) -> str:
    """Text that a terminal only shows; what it would obey is written out."""
    return _UNSAFE.sub(_escaped, str(text).replace("\r\n", "\n"))


def line(text: object, limit: int | None = None) -> str:
    """The same on one line, and not longer than the limit."""
    plain = clean(text).replace("\n", "\\n").replace("\t", "\\t")
    return plain if limit is None or len(plain) <= limit else plain[: limit - 1] + "…"


def compact(data: Any) -> str:
    """Data on one line, as a person reads it: JSON in its own letters."""
    return json.dumps(_plain(data), ensure_ascii=False)


def exact(data: Any) -> str:
    """The same for a person who decides on it: whatever could not be told apart is an escape."""
    try:
        return visible_value(_plain(data))
    except ValueError:
        return visible_line(repr(data))


def say(text: str, style: str = "") -> None:
    """Tell the person something beside the result: on stderr."""
    console(stderr=True).print(Text(clean(text), style=style), soft_wrap=True)


def fail(error: object) -> None:
    """Say what went wrong."""
    say(str(error), "red")


def show(text: str = "", style: str = "") -> None:
    """Write a line of the result."""
    console().print(Text(clean(text), style=style), soft_wrap=True)


def put(data: Any, *, indent: int | None = 2) -> None:
    """Write data for a program: JSON in plain ASCII, not wrapped."""
    typer.echo(_json(data, indent))


@contextmanager
def array() -> Iterator[Callable[[Any], None]]:
    """Write an array for a program, item by item, as `put` would write the whole.

    It is whole also where what gives the items fails or is stopped.
    """
    begun = False

    def put_item(data: Any) -> None:
        nonlocal begun
        text = _json(data, 2).replace("\n", "\n  ")
        typer.echo((",\n  " if begun else "[\n  ") + text, nl=False)
        begun = True

    try:
        yield put_item
    finally:
        typer.echo("\n]" if begun else "[]")


def table(headings: Sequence[str], rows: Iterable[Sequence[object]], wide: int | None = -1) -> None:
    """Write rows under their headings, each row one line.

    On a terminal the column `wide` gives way, so that a row fits; elsewhere nothing is cut.
    """
    _Table(headings, wide).write(rows)


@contextmanager
def growing_table(
    headings: Sequence[str], wide: int | None = -1
) -> Iterator[Callable[[Sequence[object]], None]]:
    """Write a table of any length, row by row; without rows nothing is written.

    A column grows where a later row needs it: not all rows are looked at before the first.
    """
    whole, rows = _Table(headings, wide), list[Sequence[object]]()

    def put_row(row: Sequence[object]) -> None:
        rows.append(row)
        if len(rows) == _ROWS_AT_ONCE:
            whole.write(rows)
            rows.clear()

    try:
        yield put_row
    finally:
        if rows:
            whole.write(rows)


class _Table:
    """Rows under their headings, and how wide the columns have become."""

    def __init__(self, headings: Sequence[str], wide: int | None) -> None:
        self._headings = headings
        self._wide = wide
        self._widths: list[int] = []
        self._styled = headings.index("status") if "status" in headings else 0

    def write(self, rows: Iterable[Sequence[object]]) -> None:
        """Write rows, the first below the headings."""
        cells = [[line(cell) for cell in row] for row in rows]
        needed = [max(map(cell_len, column)) for column in zip(self._headings, *cells, strict=True)]
        widths = [*map(max, needed, self._widths or needed)]
        out = console()
        if out.is_terminal and self._wide is not None:
            spare = out.width - sum(widths) - len(_GAP) * (len(widths) - 1)
            least = min(widths[self._wide], 10)
            widths[self._wide] = max(widths[self._wide] + min(spare, 0), least)
        if not self._widths:
            out.print(Text(_row(self._headings, widths), style="dim"), soft_wrap=True)
        self._widths = widths
        for row in cells:
            out.print(self._styled_row(row), soft_wrap=True)

    def _styled_row(self, row: Sequence[str]) -> Text:
        text, styled = Text(_row(row, self._widths)), self._styled
        start = sum(self._widths[:styled]) + len(_GAP) * styled
        text.stylize(STYLES.get(row[styled], ""), start, start + len(row[styled]))
        return text


def facts(pairs: Iterable[tuple[str, object]]) -> None:
    """Write names and what they are; what is None is left out."""
    known = [(name, fact) for name, fact in pairs if fact is not None]
    width = max((len(name) for name, _ in known), default=0)
    out = console()
    for name, fact in known:
        said = clean(fact).replace("\n", "\n" + " " * (width + len(_GAP)))
        style = STYLES.get(said, "") if name == "status" else ""
        text = Text.assemble((f"{name:{width}}{_GAP}", "dim"), (said, style))
        out.print(text, soft_wrap=True)


def iso_time(seconds: float | None) -> str | None:
    """A time for a program: ISO 8601 in UTC."""
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC).isoformat()


def local(seconds: float | None) -> str | None:
    """A time for a person: by the clock on the wall, to the second."""
    return None if seconds is None else f"{datetime.fromtimestamp(seconds):%Y-%m-%d %H:%M:%S}"


def age(seconds: float) -> str:
    """A length of time for a person, such as `3m` or `2d`."""
    for size, unit in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds >= size:
            return f"{int(seconds // size)}{unit}"
    return f"{max(0, int(seconds))}s"


def attended() -> bool:
    """Whether a person is there who can be asked."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def _row(cells: Sequence[str], widths: Sequence[int]) -> str:
    fitted = [_fitted(cell, width) for cell, width in zip(cells, widths, strict=True)]
    return _GAP.join(fitted).rstrip()


def _fitted(cell: str, width: int) -> str:
    if cell_len(cell) > width:
        return set_cell_size(cell, width - 1) + "…"
    return set_cell_size(cell, width)


def _plain(data: Any) -> Any:
    """Data in terms that JSON has, also what other people's objects are."""
    try:
        plain = to_jsonable_python(data, fallback=repr, bytes_mode="base64")
    except (ValueError, RecursionError):
        # It goes deeper than that does, which JSON by itself may still do.
        plain = data
    try:
        # JSON has no number that is none: the words stand for it.
        return json.loads(json.dumps(plain, default=repr), parse_constant=str)
    except (TypeError, ValueError, RecursionError):
        return repr(data)


def _json(data: Any, indent: int | None) -> str:
    plain = _plain(data)
    try:
        return json.dumps(plain, indent=indent)
    except RecursionError:
        # Without an indent it is written by another code, which goes deeper.
        return json.dumps(plain)


def _escaped(found: re.Match[str]) -> str:
    return ascii(found[0])[1:-1]
