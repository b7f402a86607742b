"""Give long lists page by page."""

import base64
from collections.abc import Callable, Iterable
from itertools import islice
from typing import TypeVar

from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS

T = TypeVar("T")
PAGE = 500


def page_after(
    items: Iterable[T], cursor: str | None, name_of: Callable[[T], str]
) -> tuple[list[T], dict[str, str]]:
    """The items after a cursor, and the cursor of the next page if there is one.

    A cursor names the last item of the page before, so that no item is skipped or repeated if
    the list grows meanwhile.
    """
    rest = iter(items)
    if cursor is not None:
        last = _read_cursor(cursor)
        if last is None or not any(name_of(item) == last for item in rest):
            raise MCPError(INVALID_PARAMS, "The cursor is not valid any more. Start without one.")
    shown = list(islice(rest, PAGE + 1))
    if len(shown) <= PAGE:
        return shown, {}
    shown.pop()
    return shown, {"nextCursor": _write_cursor(name_of(shown[-1]))}


def _write_cursor(name: str) -> str:
    return base64.urlsafe_b64encode(name.encode("utf-8", "surrogatepass")).decode("ascii")


def _read_cursor(cursor: str) -> str | None:
    try:
        return base64.urlsafe_b64decode(cursor.encode()).decode("utf-8", "surrogatepass")
    except ValueError:
        return None
