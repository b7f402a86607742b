"""Runs of agents: list them, and read one as a tree of rounds, calls and runs inside them."""

import logging
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from wieldy.agent.subagents.run_tree import WholeRun, read_whole_run
from wieldy.core.errors import describe_exception
from wieldy.core.run_errors import RunBusy, RunTaken
from wieldy.store.ledger_entry import Entry
from wieldy.store.runs import RunFilter, StoredRun

from .answer_shapes import (
    SEARCH_SECONDS,
    AnswerShape,
    Cursor,
    CutPart,
    Input,
    JsonValue,
    Limit,
    Moment,
    NextCursor,
    PlainText,
    cut_long,
    make_cursor,
)
from .api_operations import Asked, NoInput, operation
from .api_problems import Problem, forbidden, not_found
from .call_resource import WholeQuery, check_open
from .call_shapes import CallBrief, describe_call

if TYPE_CHECKING:
    from wieldy.agent.served_agent import ServedAgent

_log = logging.getLogger("wieldy.server")
_MAX_MESSAGES = 500
# A run that stops again at once is answered as it stands then.
_FIRST_SECONDS = 1.0
_RESUMABLE = ("interrupted", "crashed", "failed", "cancelled")
RunState = Literal["running", "interrupted", "crashed", "failed", "cancelled", "done"]


class RunsQuery(Input):
    """Which runs to list."""

    state: RunState | None = None
    agent: str | None = Field(None, max_length=500)
    session: str | None = Field(None, max_length=500)
    limit: Limit = 50
    cursor: Cursor = None


class RunBrief(AnswerShape):
    """A run in a list."""

    run_id: PlainText
    agent: PlainText
    state: RunState
    session: PlainText | None
    parent: PlainText | None = Field(description="The run around it.")
    steps: int
    created_at: Moment
    changed_at: Moment
    error: PlainText | None


class RunPage(AnswerShape):
    """Runs that are part of no other, the newest first."""

    runs: list[RunBrief]
    next_cursor: NextCursor


class RunCall(CallBrief):
    """A call of a run, and the run of the subagent that it asked."""

    inner_run: "RunTree | None"


class RunRound(AnswerShape):
    """The calls of one round."""

    place: PlainText = Field(description="The number of the round from 0, or a name.")
    calls: list[RunCall]


class RunMessage(AnswerShape):
    """What was said in a run."""

    role: PlainText = Field(description="Such as `user`, `assistant` or `tool`.")
    content: JsonValue
    thinking: PlainText | None = None
    calls: list[PlainText] = Field(description="The ids of the calls that a model asked for.")
    call_id: PlainText | None = Field(None, description="The call that a tool answers.")
    tool: PlainText | None = None
    status: PlainText | None = None


class RunTree(RunBrief):
    """A run with its calls, and with the runs inside them."""

    input: JsonValue
    answer: JsonValue
    messages: list[RunMessage] = Field(description="The conversation with the model, in order.")
    more_messages: bool
    resumable: bool = Field(description="Whether you can have it go on here.")
    usage: JsonValue
    spent: JsonValue
    rounds: list[RunRound]
    runs: list["RunTree"] = Field(description="Runs that tools made by themselves.")
    cut: list[CutPart]


@operation("GET", "/runs", RunPage, query=RunsQuery)
async def list_runs(asked: Asked) -> RunPage:
    """List the runs of agents, the newest first.

    Callers see those of their own session; with the role approve or administer you see all.
    """
    query: RunsQuery = asked.query
    place = asked.place(float, str)
    session = query.session if asked.sees_all else asked.name
    if not asked.sees_all and query.session not in (None, asked.name):
        return RunPage(runs=[], next_cursor=None)
    after = None if place is None else (place[0], place[1])
    wanted = RunFilter(query.state, query.agent, session, outermost=True)
    found, stopped = await asked.store.runs.page(wanted, after, query.limit + 1, SEARCH_SECONDS)
    shown = found[: query.limit]
    if len(found) > len(shown):
        stopped = (float(shown[-1].created_at), shown[-1].id)
    more = None if stopped is None else make_cursor(*stopped)
    return RunPage(runs=[RunBrief(**_brief_facts(run)) for run in shown], next_cursor=more)


@operation("GET", "/runs/{run_id}", RunTree, query=WholeQuery)
async def get_run(asked: Asked) -> RunTree:
    """Read a run as a tree, with what was said in it."""
    run = await _find_run(asked)
    return _describe_tree(asked, await read_whole_run(asked.store, run), asked.query.whole)


@operation(
    "POST",
    "/runs/{run_id}/resume",
    RunBrief,
    body=NoInput,
    roles=("call",),
    statuses=(202,),
)
async def resume_run(asked: Asked) -> RunBrief:
    """Have a run of yours go on that was interrupted, has failed or has crashed.

    Administrators resume any run. It goes on after the answer, which says how it stands.
    """
    run = await _find_run(asked)
    check_open(asked)
    if not _resumes(asked, run):
        raise forbidden("administer")
    agent = asked.api.find_agent(run.agent)
    if agent is None or not _can_resume(run):
        hint = "GET /api/runs/{run_id} says whether it is resumable."
        why = "its agent is not served here" if agent is None else f"it is {run.state}"
        raise Problem(409, "not_resumable", f"The run can't go on here: {why}.", hint)
    await asked.api.run_counted(_carry_on(agent, run.id, asked.name), _FIRST_SECONDS)
    found = await asked.store.runs.get(run.id)
    return RunBrief(**_brief_facts(found or run))


async def _carry_on(agent: "ServedAgent", run_id: str, by: str | None) -> None:
    hint = "GET /api/runs/{run_id} says how it stands."
    try:
        deps = await agent.find_deps(run_id)
    except LookupError as error:
        raise Problem(409, "not_resumable", str(error), hint) from error
    try:
        await agent.agent.resume_response(run_id, deps=deps, by=by).async_get_text()
    except (RunBusy, RunTaken) as error:
        raise Problem(409, "not_resumable", str(error), hint) from error
    except Exception as error:
        # Model and tools are other people's code. What became of the run is in its record.
        _log.info("Run %s stopped again: %s", run_id, describe_exception(error))


async def _find_run(asked: Asked) -> StoredRun:
    run = await asked.store.runs.get(asked.part("run_id"))
    if run is None or not asked.owns(run.session):
        raise not_found("run", "GET /api/runs")
    return run


def _resumes(asked: Asked, run: StoredRun) -> bool:
    """Whether whoever asks may have a run go on. Nothing in it is decided by that."""
    return asked.reads_as() or (run.session == asked.name and asked.has_role("call"))


def _can_resume(run: StoredRun) -> bool:
    # A run inside another goes on with that one.
    return run.state in _RESUMABLE and run.parent is None


def _describe_tree(asked: Asked, tree: WholeRun, whole: bool) -> RunTree:
    def describe(entry: Entry) -> RunCall:
        inner = tree.take_inside(entry)
        told = None if inner is None else _describe_tree(asked, inner, whole)
        return RunCall(**describe_call(entry).model_dump(), inner_run=told)

    cuts: list[CutPart] = []
    run = tree.run
    parts = {"input": _read_input(run), "answer": run.answer}
    messages = _read_messages(tree)
    served = asked.api.find_agent(run.agent) is not None
    resumable = served and _resumes(asked, run) and _can_resume(run)
    return RunTree(
        **_brief_facts(run),
        **{name: cut_long(name, value, whole, cuts) for name, value in parts.items()},
        messages=_cut_messages(messages[:_MAX_MESSAGES], whole, cuts),
        more_messages=len(messages) > _MAX_MESSAGES,
        resumable=resumable,
        usage=tree.usage,
        spent=tree.spent,
        rounds=[
            RunRound(place=place, calls=[describe(entry) for entry in made])
            for place, made in tree.rounds.items()
        ],
        runs=[_describe_tree(asked, each, whole) for each in tree.apart()],
        cut=cuts,
    )


def _read_messages(tree: WholeRun) -> list[dict[str, Any]]:
    """The turns of a run as messages; what the run was asked comes first."""
    turns = [turn for step in tree.steps for turn in step.get("turns", ())]
    said = [message for turn in turns for message in _read_turn(turn)]
    asked = _read_input(tree.run)
    if asked is None or any(message["role"] == "user" for message in said):
        return said
    return [{"role": "user", "content": asked, "calls": []}, *said]


def _read_turn(turn: dict[str, Any]) -> list[dict[str, Any]]:
    if "said" in turn:
        return [{"role": turn["said"], "content": turn["content"], "calls": []}]
    if "answers" in turn:
        return [
            {
                "role": "tool",
                "content": each["content"],
                "calls": [],
                "call_id": each["id"],
                "tool": each["tool"],
                "status": each["status"],
            }
            for each in turn["answers"]
        ]
    calls = [call["id"] for call in turn["calls"]]
    thinking = turn["thinking"] or None
    return [{"role": "assistant", "content": turn["text"], "calls": calls, "thinking": thinking}]


def _cut_messages(
    messages: list[dict[str, Any]], whole: bool, cuts: list[CutPart]
) -> list[RunMessage]:
    made = []
    for number, message in enumerate(messages):
        content = cut_long(f"messages.{number}.content", message["content"], whole, cuts)
        made.append(RunMessage(**{**message, "content": content}))
    return made


def _read_input(run: StoredRun) -> Any:
    prompt = run.request.get("prompt") if isinstance(run.request, dict) else None
    return prompt.get("input") if isinstance(prompt, dict) else None


def _brief_facts(run: StoredRun) -> dict[str, Any]:
    names = ("agent", "state", "session", "parent", "steps", "created_at", "changed_at", "error")
    return {"run_id": run.id, **{name: getattr(run, name) for name in names}}
