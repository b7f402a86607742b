"""Requests whose answers are taken as the server sends them."""

from collections.abc import Mapping
from typing import Any

from mcp.client import Client
from pydantic import ValidationError

from wieldy.core.arguments.argument_errors import plain_message


async def ask_raw(client: Client, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
    """An answer as the server sends it, for which the SDK has no public method."""
    session = client.session
    data: dict[str, Any] = {"method": method, "params": dict(params)}
    options: Any = {}
    session._stamp(data, options)
    raw = await session._dispatcher.send_raw_request(method, data.get("params"), options)
    return dict(raw)


def first_error(error: BaseException, *left_out: str | int) -> str:
    """The first thing that is wrong with an answer, and where; without some parts of the place."""
    if not isinstance(error, ValidationError):
        return repr(error)[:300]
    first = error.errors()[0]
    place = ".".join(str(part) for part in first["loc"] if part not in left_out)
    return f"{place}: {plain_message(first['msg'])}".removeprefix(": ")[:300]
