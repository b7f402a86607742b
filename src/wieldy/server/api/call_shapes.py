"""A call as the API shows it: in a list, and in full."""

from typing import Any, Literal

from pydantic import Field

from wieldy.core.bounded_json import parse_json
from wieldy.core.call import Decision, Outcome
from wieldy.core.choices import CallState
from wieldy.core.secrets.covered_content import shown_value
from wieldy.store.ledger_entry import Entry

from .answer_shapes import AnswerShape, CutPart, JsonValue, Moment, PlainText, clean_text, cut_long
from .live_feed import NOTHING_SHOWN, LiveState
from .shown_blocks import ArtifactPlace, ShownBlock, describe_blocks, find_spilled

_MAX_ERROR = 2000
StoryKind = Literal[
    "proposed", "repaired", "judged", "decided", "answered", "started", "attempts", "ended"
]


class Decided(AnswerShape):
    """A decision on a call."""

    approved: bool
    by: PlainText | None
    reason: PlainText | None
    at: Moment


class CallBrief(AnswerShape):
    """A call in a list."""

    call_id: PlainText
    tool: PlainText
    state: CallState
    caller: PlainText | None
    agent: PlainText | None
    session: PlainText | None
    parent: PlainText | None = Field(description="The call whose tool made this one.")
    run: PlainText | None = Field(description="The agent's run that made this call.")
    proposed_at: Moment | None
    started_at: Moment | None
    ended_at: Moment | None
    seconds: float | None
    because: PlainText | None = Field(description="The rule, trait or mode that decided.")
    decision: Decided | None
    error: PlainText | None


class StoryLine(AnswerShape):
    """One thing that happened to a call."""

    at: Moment
    kind: StoryKind
    by: PlainText | None = None
    text: PlainText | None = Field(None, description="What was said, such as a reason or an error.")
    state: str | None = Field(
        None, description="`approved` or `denied` where it was decided; the state where it ended."
    )
    count: int | None = Field(None, description="How many attempts or repairs there were.")


class LiveProgress(AnswerShape):
    """How far a running call has come."""

    progress: float | None
    total: float | None
    message: PlainText | None


class CallDetail(CallBrief):
    """A call in full."""

    arguments: JsonValue = Field(description="With every secret covered.")
    arguments_whole: bool = Field(description="Whether nothing of the arguments is left out.")
    value: JsonValue
    content: JsonValue = Field(description="What was shown, as MCP has it.")
    blocks: list[ShownBlock] = Field(description="What was shown, each piece cut by itself.")
    artifact: ArtifactPlace | None = Field(
        description="Where the whole of a result is kept that was too large."
    )
    progress: LiveProgress | None = Field(description="Of a call that runs and tells it.")
    output: PlainText = Field(description="The last text that a running call has shown.")
    output_end: int = Field(description="How many characters it has shown, as in its events.")
    metadata: JsonValue
    attempts: int
    story: list[StoryLine]
    children: list[CallBrief] = Field(description="The calls that its tool made, the newest first.")
    more_children: bool
    cut: list[CutPart] = Field(description="The parts that are too long to show here.")


def describe_call(outcome: Outcome) -> CallBrief:
    """A call in a list."""
    return CallBrief(**_brief_facts(outcome))


def describe_whole_call(
    outcome: Outcome,
    whole: bool = False,
    children: list[CallBrief] | None = None,
    more: bool = False,
    live: LiveState = NOTHING_SHOWN,
) -> CallDetail:
    """A call in full; long parts are cut unless the whole is asked for."""
    cuts: list[CutPart] = []
    recorded = outcome if isinstance(outcome, Entry) else None
    ended = recorded is None or recorded.ended
    parts = {
        "arguments": outcome.call.arguments if recorded else None,
        "value": recorded.value if recorded else read_value(outcome),
        "content": [block.to_dict() for block in outcome.content] if ended else [],
        "metadata": outcome.metadata if recorded else {},
    }
    return CallDetail(
        **_brief_facts(outcome),
        **{name: cut_long(name, value, whole, cuts) for name, value in parts.items()},
        blocks=describe_blocks(outcome, whole, recorded is not None) if ended else [],
        artifact=find_spilled(outcome),
        progress=None if live.progress is None else LiveProgress(**live.progress),
        output=live.output,
        output_end=live.output_end,
        arguments_whole=recorded is not None and not recorded.partial,
        attempts=0 if recorded is None else recorded.attempts,
        story=[] if recorded is None else _tell_story(recorded),
        children=children or [],
        more_children=more,
        cut=cuts,
    )


def read_value(outcome: Outcome) -> Any:
    """The value of an outcome as JSON, without its secrets."""
    value = shown_value(outcome)
    if not outcome.ok or value is None:
        return None
    if isinstance(value, str):
        return value
    try:
        return parse_json(outcome.text)
    except ValueError:
        return outcome.text


def _brief_facts(outcome: Outcome) -> dict[str, Any]:
    call, error = outcome.call, outcome.error
    recorded = outcome if isinstance(outcome, Entry) else None
    return {
        "call_id": call.id,
        "tool": call.tool,
        "state": outcome.status.value if recorded is None else recorded.state,
        **call.scope.to_dict(),
        "proposed_at": None if recorded is None else recorded.proposed_at,
        "started_at": None if recorded is None else recorded.started_at,
        "ended_at": None if recorded is None else recorded.ended_at,
        "seconds": outcome.seconds,
        "because": None if recorded is None else recorded.because,
        "decision": None if call.decision is None else _describe_decision(call.decision),
        "error": None if error is None else clean_text(str(error))[:_MAX_ERROR],
    }


def _describe_decision(made: Decision) -> Decided:
    return Decided.model_validate(
        {"approved": made.approved, "by": made.by, "reason": made.reason, "at": made.at}
    )


def _tell_story(entry: Entry) -> list[StoryLine]:
    made, scope = entry.call.decision, entry.call.scope
    repairs = entry.metadata.get("repairs")
    lines: list[dict[str, Any]] = [
        {"at": entry.proposed_at, "kind": "proposed", "by": scope.caller or scope.agent},
    ]
    if isinstance(repairs, list) and repairs:
        lines.append({"at": entry.proposed_at, "kind": "repaired", "count": len(repairs)})
    if entry.because is not None:
        lines.append({"at": entry.proposed_at, "kind": "judged", "text": entry.because})
    if made is not None:
        kind = "decided" if made.answers is None else "answered"
        state = "approved" if made.approved else "denied"
        told = {"by": made.by, "text": made.reason, "state": state}
        lines.append({"at": made.at, "kind": kind, **told})
    lines.append({"at": entry.started_at, "kind": "started"})
    if entry.attempts > 1:
        lines.append({"at": entry.ended_at, "kind": "attempts", "count": entry.attempts})
    error = str(entry.error)[:_MAX_ERROR] if entry.error else None
    lines.append({"at": entry.ended_at, "kind": "ended", "state": entry.state, "text": error})
    known = sorted((line for line in lines if line["at"] is not None), key=lambda line: line["at"])
    return [StoryLine.model_validate(line) for line in known]
