"""Which functions of an MCP server a toolkit takes."""

from collections.abc import Iterable, Mapping
from typing import Any

from .clients import MCPClientBase
from .mcp_function import MCPToolFunction


async def chosen(
    client: MCPClientBase,
    enable: Iterable[str] | None,
    disable: Iterable[str] | None,
    presets: Mapping[str, Any],
    wrap_tool_result: bool,
) -> list[MCPToolFunction]:
    """The functions that are wanted; every name must be one of the server's."""
    if not isinstance(client, MCPClientBase):
        raise TypeError(f"an MCP client is needed, not {type(client).__name__}")
    enabled = None if enable is None else _listed("enable_funcs", enable)
    disabled = _listed("disable_funcs", disable or [])
    both = sorted(set(enabled or ()) & set(disabled))
    if both:
        raise ValueError(f"{', '.join(both)}: named both in enable_funcs and in disable_funcs")
    found = {each.name: each for each in await client.functions(wrap_tool_result)}
    for name in (*(enabled or ()), *disabled, *presets):
        if name not in found:
            known = ", ".join(found) or "none"
            raise ValueError(f"{client.name} has no function {name!r}, only: {known}")
    wanted = found if enabled is None else enabled
    return [found[name] for name in wanted if name not in disabled]


def _listed(what: str, names: Any) -> list[str]:
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        raise TypeError(f"{what} must be a list of names")
    return list(dict.fromkeys(names))
