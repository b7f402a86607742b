"""`wieldy list` and `wieldy describe`: show the tools of the sources."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from wieldy.cli import exits, screen
from wieldy.cli.sources import LoadedSources, NothingLoaded, loaded_tools
from wieldy.core.bounded_json import MAX_WRAPPED, dump_json
from wieldy.core.errors import CallDenied, ToolNotFound
from wieldy.core.names import find_near_names
from wieldy.core.schema.references import last_name
from wieldy.core.short_text import first_line
from wieldy.core.tool import Tool
from wieldy.toolbox import Toolbox
from wieldy.wire.definitions import tool_definitions


def run_list(sources: list[str] | None, as_json: bool) -> int:
    """Print the tools; gives the exit code."""

    def work(runner: asyncio.Runner) -> int:
        with loaded_tools(runner, sources) as found:
            if as_json:
                told = [failure.to_dict() for failure in (*found.failed, *found.refused)]
                screen.put([*(_brief_data(tool, found) for tool in found.meant), *told])
            elif len(found.meant):
                _show_table(found)
            else:
                screen.say("The sources have no tools.")
            return found.exit_code(exits.OK)

    return exits.guarded(lambda runner: told_as_json(lambda: work(runner), as_json))


def _show_table(found: LoadedSources) -> None:
    """The tools as a table; there is a column for the server if a tool is from one."""
    served = any(_server_of(tool) for tool in found.meant)
    more = ("server",) if served else ()
    rows = (
        (
            tool.name,
            tool.group,
            _permission_words(tool, "said to be destructive"),
            _tool_origin(tool, found),
            *((_server_of(tool) or "",) if served else ()),
            first_line(tool.description),
        )
        for tool in found.meant
    )
    screen.table(("name", "group", "permission", "source", *more, "description"), rows)


def _permission_words(tool: Tool, why: str | None) -> str:
    """The permission of a tool, with the reason if nobody has set it."""
    permission = tool.permission.value
    return permission if tool.asks_because is None else f"{permission} ({why})"


def told_as_json(work: Callable[[], int], as_json: bool) -> int:
    """Do the work; if no source can be read, print the failures as JSON first."""
    try:
        return work()
    except NothingLoaded as error:
        if as_json:
            screen.put([failure.to_dict() for failure in error.failed])
        raise


def run_describe(
    name: str, sources: list[str] | None, provider: str | None, strict: bool, as_json: bool
) -> int:
    """Print one tool in full, or its definition for a provider; returns the exit code."""

    def work(runner: asyncio.Runner) -> int:
        with loaded_tools(runner, sources) as found:
            tool = the_tool(found, name)
            if provider is not None:
                # A definition is JSON in either case: people look at it too.
                screen.put(tool_definitions([tool], provider, strict)[0])
            elif as_json:
                screen.put(_whole_data(tool, found))
            else:
                _show_tool(tool, found)
            return found.exit_code(exits.OK)

    return exits.guarded(work)


def the_tool(found: LoadedSources, name: str) -> Tool:
    """The visible tool of this name; `ToolNotFound` with near names otherwise."""
    tool = found.meant.get(name)
    if tool is None:
        known = found.box.find_tool(name)
        if known is not None and known.hold is not None:
            raise CallDenied(known.name, known.hold.reason)
        groups = found.box.groups if isinstance(found.box, Toolbox) else ()
        off = [group.name for group in groups if not group.active]
        more = f" These groups are not active: {', '.join(off)}." if off else ""
        reason = f"There is no tool named {name!r}.{more}"
        raise ToolNotFound(name, find_near_names(name, found.meant.names), reason)
    return tool


def _brief_data(tool: Tool, found: LoadedSources) -> dict[str, Any]:
    return {
        "name": tool.name,
        "description": tool.description,
        "group": tool.group,
        "tags": list(tool.tags),
        "permission": tool.permission.value,
        "asks_because": tool.asks_because,
        "source": _tool_origin(tool, found),
        "server": _server_of(tool),
    }


def _whole_data(tool: Tool, found: LoadedSources) -> dict[str, Any]:
    limits = {name: getattr(tool.limits, name) for name in ("timeout", "retries", "concurrency")}
    return {
        **_brief_data(tool, found),
        "input_schema": tool.input_schema,
        "output_schema": tool.output_schema,
        "traits": tool.traits,
        "limits": limits,
        "fingerprint": tool.fingerprint,
    }


def _show_tool(tool: Tool, found: LoadedSources) -> None:
    traits = ", ".join(name.replace("_", "-") for name, holds in tool.traits.items() if holds)
    timeout = tool.limits.timeout
    facts = (
        ("name", tool.name),
        ("group", tool.group),
        ("tags", ", ".join(tool.tags) or None),
        ("permission", _permission_words(tool, tool.asks_because)),
        ("traits", traits or None),
        ("timeout", None if timeout is None else f"{timeout:g} s"),
        ("source", _tool_origin(tool, found)),
        ("server", _server_of(tool)),
    )
    screen.facts(facts)
    if tool.description:
        screen.show("\n" + tool.description)
    properties = tool.input_schema["properties"]
    if properties:
        screen.show()
        required = tool.input_schema.get("required", ())
        rows = [
            _parameter_row(name, schema, name in required) for name, schema in properties.items()
        ]
        screen.table(("argument", "type", "needed", "default", "description"), rows)
    screen.show("\nschema", "dim")
    screen.show(
        dump_json(tool.input_schema, MAX_WRAPPED, indent=2, ensure_ascii=False, default=str)
    )
    if tool.output_schema is not None:
        screen.show("\nresult", "dim")
        screen.show(
            dump_json(tool.output_schema, MAX_WRAPPED, indent=2, ensure_ascii=False, default=str)
        )


def _parameter_row(name: str, schema: Any, needed: bool) -> tuple[str, ...]:
    if not isinstance(schema, Mapping):
        return name, "any", "yes" if needed else "", "", ""
    default = screen.compact(schema["default"]) if "default" in schema else ""
    said = " ".join(str(schema.get("description", "")).split())
    return name, type_of(schema), "yes" if needed else "", default, said


def type_of(schema: Any) -> str:
    """A schema's type in a few words."""
    if not isinstance(schema, Mapping):
        return "any"
    if "enum" in schema:
        return " | ".join(map(screen.compact, schema["enum"]))
    if "const" in schema:
        return screen.compact(schema["const"])
    choices = schema.get("anyOf") or schema.get("oneOf")
    if choices:
        return " | ".join(dict.fromkeys(map(type_of, choices)))
    if "$ref" in schema:
        return last_name(str(schema["$ref"]))
    kind = schema.get("type", "any")
    if kind == "array" and "items" in schema:
        return f"array of {type_of(schema['items'])}"
    return " | ".join(map(str, kind)) if isinstance(kind, list) else str(kind)


def _tool_origin(tool: Tool, found: LoadedSources) -> str:
    return found.origins.get(tool.name, tool.source)


def _server_of(tool: Tool) -> str | None:
    """The name of the MCP server that provides a tool, or None."""
    kind, _, name = tool.source.partition(":")
    return name if kind == "mcp" else None


def _schema_text(schema: Any) -> str:
    return dump_json(schema, MAX_WRAPPED, indent=2, ensure_ascii=False, default=str)
