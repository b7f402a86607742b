"""Tools: list those that can be called, read one, and ask whether a call of it would run."""

from dataclasses import asdict
from typing import Any, Literal

from pydantic import Field

from wieldy.core.call import Scope
from wieldy.core.choices import ProviderFormat
from wieldy.core.short_text import cut_text, first_line
from wieldy.core.tool import Tool
from wieldy.lock.lock_review import find_lock_state
from wieldy.wire.checking import report
from wieldy.wire.cost import definition_tokens
from wieldy.wire.schema.target import PROVIDERS

from .answer_shapes import AnswerShape, Cursor, Input, JsonValue, Limit, PlainText, make_cursor
from .api_operations import Asked, operation
from .api_problems import forbidden, not_found

LockStateName = Literal["locked", "changed", "new", "none"]
_MAX_LINE = 500
_MAX_LOSSES = 100


class ToolQuery(Input):
    """Which tools to list."""

    search: str | None = Field(None, max_length=1000, description="Words; the best match first.")
    limit: Limit = 100
    cursor: Cursor = None


class ToolFacts(AnswerShape):
    """What is told of a tool everywhere."""

    name: PlainText
    description: PlainText = Field(description="The first line.")
    group: PlainText
    tags: list[PlainText]
    permission: PlainText
    asks_because: PlainText | None = Field(
        description="Why its calls need a person although nobody has set a permission."
    )
    source: PlainText
    server: PlainText | None = Field(description="The MCP server that it comes from.")
    tokens: int = Field(description="About how many tokens its definition takes in a request.")
    callable: bool = Field(
        description="Whether it can be called. Those who approve also see tools held by the lock."
    )


class ToolBrief(ToolFacts):
    """A tool in a list."""

    lock: LockStateName


class ToolPage(AnswerShape):
    """Tools in order."""

    tools: list[ToolBrief]
    next_cursor: str | None


class LockFacts(AnswerShape):
    """How a tool stands to the lock."""

    state: LockStateName = Field(
        description="`new` is from outside and not in the lock; `none` needs no lock."
    )
    diff: PlainText = Field(description="The lines that differ; empty if nothing does.")
    reason: PlainText | None = Field(description="What differs, and what to do about it.")


class ProviderLoss(AnswerShape):
    """Something in a tool's schema that a provider can't be told."""

    provider: ProviderFormat
    path: PlainText = Field(description="Where it is; empty for the whole schema.")
    what: PlainText


class ToolDetail(ToolFacts):
    """A tool in full."""

    input_schema: JsonValue
    output_schema: JsonValue
    traits: dict[str, bool | None]
    timeout: float | None
    fingerprint: PlainText
    tokens_by_provider: dict[ProviderFormat, int]
    losses: list[ProviderLoss] = Field(
        description="What a provider would not enforce. It is still checked when a call runs."
    )
    lock: LockFacts


class ExplainedCall(Input):
    """A call that is not made."""

    tool: str = Field(min_length=1, max_length=1000)
    arguments: dict[str, Any] = Field(default_factory=dict)
    caller: str | None = Field(
        None, min_length=1, max_length=500, description="Somebody else; for administrators."
    )
    agent: str | None = Field(None, min_length=1, max_length=500, description="The same.")
    session: str | None = Field(None, min_length=1, max_length=500, description="The same.")


class LimitUse(AnswerShape):
    """A limit on calls, and how much of it is used."""

    limit: PlainText = Field(description="As it would be written in a gateway's file.")
    rate: dict[str, float] | None = Field(description="How many may start in how many seconds.")
    started: int
    concurrent: int | None = Field(description="How many may run at once.")
    running: int
    retry_after: float = Field(description="Seconds until a call may start.")


class PermissionAnswer(AnswerShape):
    """The prediction of what would become of a call."""

    decision: str = Field(description="`run`, `ask`, `deny` or `dry-run`.")
    because: PlainText = Field(description="The rule, trait or mode that decides.")
    matched: JsonValue = Field(description="Every rule that matches the call.")
    question: PlainText | None = Field(description="What a person would be asked.")
    limits: list[LimitUse] = Field(description="The limits on calls that hold for you and it.")


@operation("GET", "/tools", ToolPage, query=ToolQuery)
async def list_tools(asked: Asked) -> ToolPage:
    """List the tools that you can call; those who approve see also those held by the lock."""
    query: ToolQuery = asked.query
    place = asked.place(int)
    view = asked.view
    tools = view.all_visible() if query.search is None else list(view.search_all(query.search))
    usable = await view.permitted_tools(tools)
    found = [*usable, *_held_tools(asked, usable, query.search)]
    start = 0 if place is None else max(0, place[0])
    shown, end = found[start : start + query.limit], start + query.limit
    more = make_cursor(end) if len(found) > end else None
    return ToolPage(tools=[_describe_brief(asked, each) for each in shown], next_cursor=more)


@operation("GET", "/tools/{name}", ToolDetail)
async def get_tool(asked: Asked) -> ToolDetail:
    """Read one tool with its schemas, what it costs and what providers would lose of it."""
    tool = await _find_readable(asked, asked.part("name"))
    return ToolDetail(
        **{**_tool_facts(tool), "description": tool.description},
        input_schema=tool.input_schema,
        output_schema=tool.output_schema,
        traits=dict(tool.traits),
        timeout=tool.limits.timeout,
        fingerprint=tool.fingerprint,
        tokens_by_provider={each: definition_tokens(tool, each) for each in PROVIDERS},
        losses=_find_losses(tool),
        lock=describe_lock(asked, tool),
    )


@operation("POST", "/explain", PermissionAnswer, body=ExplainedCall)
async def explain_call(asked: Asked) -> PermissionAnswer:
    """Say whether a call would run, and which rule says so; nothing is run or recorded."""
    wanted: ExplainedCall = asked.body
    scope = Scope(wanted.agent, wanted.session, caller=wanted.caller)
    if scope == Scope():
        tool = await find_tool(asked, wanted.tool)
        told = await asked.view.explain_permission(tool.name, wanted.arguments)
    elif not asked.reads_as():
        raise forbidden("administer")
    else:
        told = await asked.box.explain_permission(wanted.tool, wanted.arguments, scope=scope)
    return PermissionAnswer(**told.to_dict())


async def find_tool(asked: Asked, name: str) -> Tool:
    """The tool of this name that whoever asks can call; `Problem` otherwise."""
    view = asked.view
    tool = view.get(name)
    found = [] if tool is None else await view.permitted_tools([tool])
    if not found:
        raise not_found("tool", "GET /api/tools")
    return found[0]


def describe_lock(asked: Asked, tool: Tool) -> LockFacts:
    """How a tool stands to the lock."""
    return LockFacts.model_validate(asdict(find_lock_state(asked.box.review, tool)))


async def _find_readable(asked: Asked, name: str) -> Tool:
    """The tool of this name that whoever asks can call, or that they see held back."""
    tool = asked.view.find_tool(name) if asked.sees_all else None
    return tool if tool is not None and _is_held(tool) else await find_tool(asked, name)


def _held_tools(asked: Asked, usable: list[Tool], search: str | None) -> list[Tool]:
    if not asked.sees_all:
        return []
    known = {tool.name for tool in usable}
    held = [each for each in asked.view.all_tools() if _is_held(each) and each.name not in known]
    words = (search or "").lower().split()
    texts = [(each, f"{each.name} {each.description}".lower()) for each in held]
    return [each for each, text in texts if all(word in text for word in words)]


def _is_held(tool: Tool) -> bool:
    return tool.hold is not None and not tool.hold.asks


def _describe_brief(asked: Asked, tool: Tool) -> ToolBrief:
    return ToolBrief(**_tool_facts(tool), lock=find_lock_state(asked.box.review, tool).state)


def _find_losses(tool: Tool) -> list[ProviderLoss]:
    return [
        ProviderLoss(
            provider=each, path=change.path, what=f"{change.keyword} {change.what} ({change.why})"
        )
        for each in PROVIDERS
        for change in report([tool], each).tools[tool.name][:_MAX_LOSSES]
        if change.lost
    ]


def _tool_facts(tool: Tool) -> dict[str, Any]:
    kind, _, server = tool.source.partition(":")
    return {
        "name": tool.name,
        "description": cut_text(first_line(tool.description), _MAX_LINE),
        "group": tool.group,
        "tags": list(tool.tags),
        "permission": tool.permission.value,
        "asks_because": tool.asks_because,
        "source": tool.source,
        "server": server if kind == "mcp" else None,
        "tokens": definition_tokens(tool, "openai"),
        "callable": not _is_held(tool),
    }
