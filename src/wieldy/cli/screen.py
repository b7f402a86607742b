"""Write results to the terminal: text and tables for people, JSON for programs.

Text from tools, stored rows and servers is untrusted. It is shown to people without
control characters, and it is never interpreted as markup.
"""

import logging
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import typer
from pydantic_core import to_jsonable_python
from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.text import Text

from wieldy.core.bounded_json import MAX_WRAPPED, dump_json, parse_json_with
from wieldy.core.short_text import cut_text
from wieldy.core.timestamps import utc_moment
from wieldy.core.visible_text import visible_line, visible_value

from . import environment

STYLES = {
    "ok": "green",
    "pending": "yellow",
    "approved": "yellow",
    "started": "cyan",
    "dry_run": "cyan",
    "mode": "cyan",
    "lost": "red",
    "changed": "yellow",
    **dict.fromkeys(("error", "denied", "expired", "timeout", "interrupted", "unknown"), "red"),
}
_GAP = "  "
_ROWS_AT_ONCE = 1000
# Control characters, characters that hide or change the direction of text, and lone surrogates.
_UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f"
    "\ud800-\udfff\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]"
)


class _LogLines(logging.Handler):
    """Shows log records on stderr if the application has configured no handler."""

    def emit(self, record: logging.LogRecord) -> None:
        say(self.format(record))


def ready() -> None:
    """Make the streams print a question mark for characters that they can't encode.

    Log records may contain text from servers, so they are cleaned before they are shown.
    """
    for stream in (sys.stdout, sys.stderr):
        getattr(stream, "reconfigure", lambda **_: None)(errors="replace")
    logging.lastResort = _LogLines(logging.WARNING)


def console(*, stderr: bool = False) -> Console:
    """A console for text that people read; it has no styles if `NO_COLOR` is set."""
    if environment.wants_color():
        return Console(stderr=stderr, highlight=False)
    return Console(stderr=stderr, highlight=False, color_system=None)


def obey_no_color() -> None:
    """Print help and usage errors without styles if `NO_COLOR` is set."""
    if not environment.wants_color():
        from typer import rich_utils  # noqa: PLC0415 - loaded where help is written, else not

        rich_utils.COLOR_SYSTEM = None


def clean(text: object) -> str:
    """The text with control characters escaped, so that a terminal only displays it."""
    return _UNSAFE.sub(_escape_match, str(text).replace("\r\n", "\n"))


def line(text: object, limit: int | None = None) -> str:
    """The cleaned text on one line, cut to the limit."""
    plain = clean(text).replace("\n", "\\n").replace("\t", "\\t")
    return plain if limit is None else cut_text(plain, limit)


def compact(data: Any) -> str:
    """Data as JSON on one line for people; non-ASCII letters are kept."""
    return dump_json(_plain_data(data), MAX_WRAPPED, ensure_ascii=False)


def exact(data: Any) -> str:
    """Data for a person who decides on it; characters that could be confused are escaped."""
    try:
        return visible_value(_plain_data(data))
    except ValueError:
        return visible_line(repr(data))


def say(text: str, style: str = "") -> None:
    """Print a message for the person on stderr; stdout is for the result."""
    console(stderr=True).print(Text(clean(text), style=style), soft_wrap=True)


def fail(error: object) -> None:
    """Print an error message on stderr."""
    say(str(error), "red")


def show(text: str = "", style: str = "") -> None:
    """Write a line of the result."""
    console().print(Text(clean(text), style=style), soft_wrap=True)


def put(data: Any, *, indent: int | None = 2) -> None:
    """Write data for a program: JSON in plain ASCII, not wrapped."""
    typer.echo(_json_text(data, indent))


@contextmanager
def array() -> Iterator[Callable[[Any], None]]:
    """Write a JSON array item by item, in the form that `put` gives a whole array.

    The array is closed even if the items end early because of an error or Ctrl-C.
    """
    begun = False

    def put_item(data: Any) -> None:
        nonlocal begun
        text = _json_text(data, 2).replace("\n", "\n  ")
        typer.echo((",\n  " if begun else "[\n  ") + text, nl=False)
        begun = True

    try:
        yield put_item
    finally:
        typer.echo("\n]" if begun else "[]")


def table(headings: Sequence[str], rows: Iterable[Sequence[object]], wide: int | None = -1) -> None:
    """Write rows under their headings, each row one line.

    On a terminal the column `wide` is cut so that a row fits. In a pipe nothing is cut.
    """
    _Table(headings, wide).write(rows)


@contextmanager
def growing_table(
    headings: Sequence[str], wide: int | None = -1
) -> Iterator[Callable[[Sequence[object]], None]]:
    """Write a table of any length, row by row; without rows nothing is written.

    The first rows are written before the last are known, so a column may become wider later.
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
    """A table in progress: its headings and the current widths of its columns."""

    def __init__(self, headings: Sequence[str], wide: int | None) -> None:
        self._headings = headings
        self._wide = wide
        self._widths: list[int] = []
        self._styled = headings.index("state") if "state" in headings else 0

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
            out.print(Text(_table_row(self._headings, widths), style="dim"), soft_wrap=True)
        self._widths = widths
        for row in cells:
            out.print(self._styled_row(row), soft_wrap=True)

    def _styled_row(self, row: Sequence[str]) -> Text:
        text, styled = Text(_table_row(row, self._widths)), self._styled
        start = sum(self._widths[:styled]) + len(_GAP) * styled
        text.stylize(STYLES.get(row[styled], ""), start, start + len(row[styled]))
        return text


def facts(pairs: Iterable[tuple[str, object]]) -> None:
    """Write pairs of a name and a value, one to a line; None values are left out."""
    known = [(name, fact) for name, fact in pairs if fact is not None]
    width = max((len(name) for name, _ in known), default=0)
    out = console()
    for name, fact in known:
        said = clean(fact).replace("\n", "\n" + " " * (width + len(_GAP)))
        style = STYLES.get(said, "") if name == "state" else ""
        text = Text.assemble((f"{name:{width}}{_GAP}", "dim"), (said, style))
        out.print(text, soft_wrap=True)


def local(seconds: float | None) -> str | None:
    """A time for a person: by the clock on the wall, to the second."""
    return None if seconds is None else f"{utc_moment(seconds).astimezone():%Y-%m-%d %H:%M:%S}"


def age(seconds: float) -> str:
    """A length of time for a person, such as `3m` or `2d`."""
    for size, unit in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds >= size:
            return f"{int(seconds // size)}{unit}"
    return f"{max(0, int(seconds))}s"


def attended() -> bool:
    """Whether a person at a terminal can be asked."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def _table_row(cells: Sequence[str], widths: Sequence[int]) -> str:
    fitted = [_fit_cell(cell, width) for cell, width in zip(cells, widths, strict=True)]
    return _GAP.join(fitted).rstrip()


def _fit_cell(cell: str, width: int) -> str:
    if cell_len(cell) > width:
        return set_cell_size(cell, width - 1) + "…"
    return set_cell_size(cell, width)


def _plain_data(data: Any) -> Any:
    """Data as JSON values; objects of unknown types become their `repr`."""
    try:
        plain = to_jsonable_python(data, fallback=repr, bytes_mode="base64")
    except ValueError:
        # The data is too deep or contains itself, which the next line finds as well.
        plain = data
    try:
        # JSON has no NaN and no infinity; their names are written as strings.
        return parse_json_with(
            dump_json(plain, MAX_WRAPPED, default=repr), MAX_WRAPPED, parse_constant=str
        )
    except (TypeError, ValueError):
        return repr(data)


def _json_text(data: Any, indent: int | None) -> str:
    return dump_json(_plain_data(data), MAX_WRAPPED, indent=indent)


def _escape_match(found: re.Match[str]) -> str:
    return ascii(found[0])[1:-1]
