"""Runs of agents: list them, and read one as a tree of rounds, calls and runs inside them."""

from typing import Any, Literal

from pydantic import Field

from wieldy.agent.subagents.run_tree import WholeRun, read_whole_run
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
from .api_operations import Asked, operation
from .api_problems import not_found
from .call_resource import WholeQuery
from .call_shapes import CallBrief, describe_call

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


class RunTree(RunBrief):
    """A run with its calls, and with the runs inside them."""

    input: JsonValue
    answer: JsonValue
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
    """Read a run as a tree."""
    run = await asked.store.runs.get(asked.part("run_id"))
    if run is None or not asked.owns(run.session):
        raise not_found("run", "GET /api/runs")
    return _describe_tree(await read_whole_run(asked.store, run), asked.query.whole)


def _describe_tree(tree: WholeRun, whole: bool) -> RunTree:
    def describe(entry: Entry) -> RunCall:
        inner = tree.take_inside(entry)
        told = None if inner is None else _describe_tree(inner, whole)
        return RunCall(**describe_call(entry).model_dump(), inner_run=told)

    cuts: list[CutPart] = []
    run, last = tree.run, tree.last
    parts = {"input": _read_input(run), "answer": run.answer}
    return RunTree(
        **_brief_facts(run),
        **{name: cut_long(name, value, whole, cuts) for name, value in parts.items()},
        usage=last.get("usage"),
        spent=last.get("spent", {}),
        rounds=[
            RunRound(place=place, calls=[describe(entry) for entry in made])
            for place, made in tree.rounds.items()
        ],
        runs=[_describe_tree(each, whole) for each in tree.apart()],
        cut=cuts,
    )


def _read_input(run: StoredRun) -> Any:
    prompt = run.request.get("prompt") if isinstance(run.request, dict) else None
    return prompt.get("input") if isinstance(prompt, dict) else None


def _brief_facts(run: StoredRun) -> dict[str, Any]:
    names = ("agent", "state", "session", "parent", "steps", "created_at", "changed_at", "error")
    return {"run_id": run.id, **{name: getattr(run, name) for name in names}}
