"""Tools: list those that can be called, read one, and ask whether a call of it would run."""

from typing import Any

from pydantic import Field

from wieldy.core.tool import Tool
from wieldy.wire.cost import tool_cost

from .answer_shapes import AnswerShape, Cursor, Input, JsonValue, Limit, PlainText, make_cursor
from .api_operations import Asked, operation
from .api_problems import not_found

_LONGEST_LINE = 500


class ToolQuery(Input):
    """Which tools to list."""

    search: str | None = Field(None, max_length=1000, description="Words; the best match first.")
    limit: Limit = 100
    cursor: Cursor = None


class ToolBrief(AnswerShape):
    """A tool in a list."""

    name: PlainText
    description: PlainText = Field(description="The first line.")
    group: PlainText
    tags: list[PlainText]
    permission: PlainText
    source: PlainText
    server: PlainText | None = Field(description="The MCP server that it comes from.")


class ToolPage(AnswerShape):
    """Tools in order."""

    tools: list[ToolBrief]
    next_cursor: str | None


class ToolDetail(ToolBrief):
    """A tool in full."""

    input_schema: JsonValue
    output_schema: JsonValue
    traits: dict[str, bool | None]
    timeout: float | None
    fingerprint: PlainText
    tokens: int = Field(description="About how many tokens its definition takes in a request.")


class ExplainedCall(Input):
    """A call that is not made."""

    tool: str = Field(min_length=1, max_length=1000)
    arguments: dict[str, Any] = Field(default_factory=dict)


class PermissionAnswer(AnswerShape):
    """The prediction of what would become of a call."""

    decision: str = Field(description="`run`, `ask`, `deny` or `dry-run`.")
    because: PlainText = Field(description="The rule, trait or mode that decides.")
    matched: JsonValue = Field(description="Every rule that matches the call.")
    question: PlainText | None = Field(description="What a person would be asked.")


@operation("GET", "/tools", ToolPage, query=ToolQuery)
async def list_tools(asked: Asked) -> ToolPage:
    """List the tools that you can call."""
    query: ToolQuery = asked.query
    place = asked.place(int)
    view = asked.view
    tools = view.all_visible() if query.search is None else list(view.search_all(query.search))
    found = await view.permitted_tools(tools)
    start = 0 if place is None else max(0, place[0])
    shown, end = found[start : start + query.limit], start + query.limit
    more = make_cursor(end) if len(found) > end else None
    return ToolPage(tools=[ToolBrief(**_brief_facts(each)) for each in shown], next_cursor=more)


@operation("GET", "/tools/{name}", ToolDetail)
async def get_tool(asked: Asked) -> ToolDetail:
    """Read one tool with its schemas and what its definition costs."""
    tool = await _find_tool(asked, asked.part("name"))
    return ToolDetail(
        **{**_brief_facts(tool), "description": tool.description},
        input_schema=tool.input_schema,
        output_schema=tool.output_schema,
        traits=dict(tool.traits),
        timeout=tool.limits.timeout,
        fingerprint=tool.fingerprint,
        tokens=tool_cost([tool], "openai", False, None).total,
    )


@operation("POST", "/explain", PermissionAnswer, body=ExplainedCall)
async def explain_call(asked: Asked) -> PermissionAnswer:
    """Say whether a call would run, and which rule says so; nothing is run or recorded."""
    wanted: ExplainedCall = asked.body
    tool = await _find_tool(asked, wanted.tool)
    told = await asked.view.explain_permission(tool.name, wanted.arguments)
    return PermissionAnswer(**told.to_dict())


async def _find_tool(asked: Asked, name: str) -> Tool:
    view = asked.view
    tool = view.get(name)
    found = [] if tool is None else await view.permitted_tools([tool])
    if not found:
        raise not_found("tool", "GET /api/tools")
    return found[0]


def _brief_facts(tool: Tool) -> dict[str, Any]:
    kind, _, server = tool.source.partition(":")
    return {
        "name": tool.name,
        "description": tool.description.strip().partition("\n")[0][:_LONGEST_LINE],
        "group": tool.group,
        "tags": list(tool.tags),
        "permission": tool.permission.value,
        "source": tool.source,
        "server": server if kind == "mcp" else None,
    }
