"""What a person has to know to decide on a call that waits."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Literal

from pydantic import Field

from wieldy.core.errors import InvalidArguments, ToolNotFound
from wieldy.core.permission.explanation import Explanation
from wieldy.core.permission.parked import Parked
from wieldy.core.tool import Tool

from .answer_shapes import AnswerShape, CutPart, JsonValue, Moment, PlainText, cut_long
from .api_operations import Asked
from .tool_resource import LockFacts, describe_lock


class PendingCall(AnswerShape):
    """A call that waits for a decision or for answers."""

    call_id: PlainText
    tool: PlainText
    arguments: JsonValue = Field(description="With every secret covered.")
    reason: PlainText | None = Field(description="Why a person is asked.")
    requests: JsonValue = Field(
        description="The questions by name if the call waits for answers, otherwise null."
    )
    repairs: JsonValue
    caller: PlainText | None
    agent: PlainText | None
    session: PlainText | None
    parent: PlainText | None
    run: PlainText | None
    proposed_at: Moment
    expires_at: Moment | None
    claims: dict[str, str] = Field(
        description="Digests, by name, of the claims of the caller's token that the call depends "
        "on. It is refused if one of them is another when it starts."
    )
    cut: list[CutPart]


class AskingRule(AnswerShape):
    """Which rule asks, and what the rules say by now."""

    because: PlainText | None = Field(description="The rule, trait or mode that asked.")
    decision: str | None = Field(
        description="What would become of the call now; null if its tool or schema has changed."
    )
    because_now: PlainText | None
    matched: JsonValue = Field(description="Every rule that matches the call now.")


class AskedQuestion(AnswerShape):
    """Something that a tool asks."""

    name: PlainText = Field(description="The name of the answer.")
    kind: Literal["form", "url", "other"]
    message: PlainText
    answer_schema: JsonValue = Field(description="The schema of the answer; null if not a form.")
    url: PlainText | None = Field(description="The address to open. It comes from the tool.")


class CallOrigin(AnswerShape):
    """Where a call and its tool come from, as far as that says whom to trust."""

    source: PlainText | None = Field(description="Where the tool comes from; null if it is gone.")
    trusted: bool | None = Field(description="Whether whoever describes the tool is trusted.")
    untrusted_session: bool = Field(
        description="Whether text from outside is in the session, which may have asked for this."
    )


class PendingDetail(PendingCall):
    """A call that waits, with what is known about it and its tool."""

    description: PlainText | None = Field(description="The tool's; null if the tool is gone.")
    input_schema: JsonValue
    traits: dict[str, bool | None]
    tool_changed: bool = Field(
        description="Whether the tool here is another one by now, so that the call can't run. A "
        "tool that is gone may come back as it was."
    )
    rule: AskingRule
    lock: LockFacts | None
    questions: list[AskedQuestion]
    origin: CallOrigin
    decidable: bool = Field(description="Whether you may decide on it.")


def describe_parked(parked: Parked, whole: bool) -> PendingCall:
    """A waiting call in a list."""
    return PendingCall(**_brief_facts(parked, whole))


async def describe_pending(
    asked: Asked, parked: Parked, whole: bool, decidable: bool
) -> PendingDetail:
    """A waiting call in full."""
    tool = asked.box.find_tool(parked.tool)
    now = await _find_rule(asked, parked)
    origin = await _find_origin(asked, parked, tool)
    lock = None if tool is None else describe_lock(asked, tool)
    # Arguments may be large, and others must not wait for them.
    return await asyncio.to_thread(
        lambda: PendingDetail(
            **_brief_facts(parked, whole),
            description=None if tool is None else tool.description,
            input_schema=None if tool is None else tool.input_schema,
            traits={} if tool is None else dict(tool.traits),
            tool_changed=has_changed(asked, parked),
            rule=now,
            lock=lock,
            questions=_read_questions(parked),
            origin=origin,
            decidable=decidable,
        )
    )


def _brief_facts(parked: Parked, whole: bool) -> dict[str, Any]:
    facts, cuts = parked.to_dict(), list[CutPart]()
    parts = ("arguments", "requests", "repairs")
    facts |= {name: cut_long(name, facts[name], whole, cuts) for name in parts}
    facts.pop("waits_for", None)
    return {**facts, "claims": parked.claims, "cut": cuts}


def has_changed(asked: Asked, parked: Parked) -> bool:
    """Whether the tool of a waiting call is here, and is another one than when it was made."""
    tool = asked.box.find_tool(parked.tool)
    # A tool that is missing here may be in another process, or come back with its server.
    return tool is not None and tool.fingerprint != parked.fingerprint


async def _find_rule(asked: Asked, parked: Parked) -> AskingRule:
    now: Explanation | None = None
    # The tool may have changed since the call was made.
    with suppress(ToolNotFound, InvalidArguments):
        now = await asked.box.explain_permission(parked.tool, parked.arguments, scope=parked.scope)
    return AskingRule(
        because=parked.reason,
        decision=None if now is None else now.decision,
        because_now=None if now is None else now.because,
        matched=[] if now is None else now.to_dict()["matched"],
    )


async def _find_origin(asked: Asked, parked: Parked, tool: Tool | None) -> CallOrigin:
    return CallOrigin(
        source=None if tool is None else tool.source,
        trusted=None if tool is None else tool.trusted,
        untrusted_session=any(
            [await asked.box.untrusted.holds(each) for each in parked.scope.sessions()]
        ),
    )


def _read_questions(parked: Parked) -> list[AskedQuestion]:
    if not isinstance(parked.requests, Mapping) or parked.waits_for:
        return []
    requests = parked.to_dict()["requests"]
    return [_read_question(name, request) for name, request in requests.items()]


def _read_question(name: str, request: Any) -> AskedQuestion:
    given = request.get("params") if isinstance(request, Mapping) else None
    params: Mapping[str, Any] = given if isinstance(given, Mapping) else {}
    schema, url, message = (params.get(key) for key in ("requestedSchema", "url", "message"))
    kind: Literal["form", "url", "other"] = "other"
    if isinstance(schema, Mapping):
        kind = "form"
    elif isinstance(url, str):
        kind = "url"
    return AskedQuestion(
        name=name,
        kind=kind,
        message=message if isinstance(message, str) else "",
        answer_schema=schema if kind == "form" else None,
        url=url if kind == "url" else None,
    )
