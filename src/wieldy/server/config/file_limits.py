"""The limits on calls that a gateway's file sets, and what is wrong with them."""

from collections.abc import Iterator

from wieldy.core.limits.call_limits import EACH, CallLimit

from .gateway_file import CallerLimitTable, GatewayFile, LimitTable
from .key_lines import KeyPath

NAMELESS = "callers have names only if they have tokens. Write tokens = true below [access]."
# A limit's place in the file, the caller and the tools whose calls it counts, and its table.
_Placed = tuple[KeyPath, str | None, str, LimitTable]


def read_limits(file: GatewayFile) -> list[CallLimit]:
    """The limits that a file without mistakes sets."""
    return [
        CallLimit(tools=tools, caller=caller, rate=table.rate, concurrent=table.concurrent)
        for _, caller, tools, table in _list_tables(file)
        if not _is_empty(table)
    ]


def find_limit_misfits(file: GatewayFile) -> Iterator[tuple[KeyPath, str]]:
    """The limits that limit nothing."""
    for place, _, _, table in _list_tables(file):
        if _is_empty(table) and not getattr(table, "tools", None):
            yield place, 'limits nothing. Write rate = "60/min" or concurrent = 4.'
    if EACH in file.limits.callers:
        said = "is nobody's name. Limits for each caller are below [limits.caller]."
        yield ("limits", "callers", EACH), said
    if not file.access.tokens and file.access.oauth is None:
        yield from ((("limits", "callers", name), NAMELESS) for name in file.limits.callers)


def _is_empty(table: LimitTable) -> bool:
    return table.rate is None and table.concurrent is None


def _list_tables(file: GatewayFile) -> Iterator[_Placed]:
    limits = file.limits
    for tools, table in limits.tools.items():
        yield ("limits", "tools", tools), None, tools, table
    if limits.caller is not None:
        yield from _list_caller(("limits", "caller"), EACH, limits.caller)
    for name, caller in limits.callers.items():
        yield from _list_caller(("limits", "callers", name), name, caller)


def _list_caller(place: KeyPath, caller: str, table: CallerLimitTable) -> Iterator[_Placed]:
    yield place, caller, EACH, table
    for tools, each in table.tools.items():
        yield (*place, "tools", tools), caller, tools, each
