"""Write the state of a run as JSON: the request, and the additions of each step."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Any, NamedTuple

from wieldy.agent.output.data_formatter import DataFormatter
from wieldy.agent.output.output_record import LostType, read_recorded_output, write_output
from wieldy.agent.prompt import Prompt
from wieldy.agent.request import Request
from wieldy.agent.run_state import RunState, Step
from wieldy.agent.strategies.strategy import Strategy
from wieldy.agent.subagents.nesting import read_nesting
from wieldy.core.bounded_json import MAX_WRAPPED, bound_writer, dump_json, parse_json
from wieldy.core.call import read_around
from wieldy.core.run_errors import StateRefused
from wieldy.core.secrets.secret import redact_data
from wieldy.models.model import Reply
from wieldy.store.row_values import to_ascii_json

from .run_values import (
    Form,
    call_secrets,
    read_outcome,
    read_run_call,
    read_turn,
    to_json_data,
    write_call,
    write_outcome,
    write_turn,
)

VERSION = 1
_SCALARS = (
    "round",
    "retries",
    "judged",
    "purpose",
    "requests",
    "usage",
    "pending",
    "limited",
    "spent",
)
_read_scalars = attrgetter(*_SCALARS)
# `json.dumps` with a default would make an encoder for each request.
_encoder = json.JSONEncoder(default=str)


class WrittenStep(NamedTuple):
    """A step as JSON text, and the request alone if the step has it."""

    body: str
    request: str | None


class StepWriter:
    """Writes what has changed in a run since the last step."""

    def __init__(self, turns: int = 0, logs: int = 0) -> None:
        self._turns = turns
        self._logs = logs
        self._secrets: tuple[str, ...] = ()

    def write(self, request: Request, state: RunState, whole_request: bool) -> WrittenStep:
        """The next step as JSON, without the secrets in the arguments of its calls."""
        partial = call_secrets(state.calls, request.view)
        for secrets in partial.values():
            self._secrets += tuple(secrets)
        try:
            body = to_ascii_json(self._collect_changes(state, partial, lambda value: value))
        except Exception:
            # A value is other people's code that fails. It becomes text, and the rest is kept.
            body = to_ascii_json(self._collect_changes(state, partial, to_json_data))
        self._turns, self._logs = len(state.turns), len(state.logs)
        asked = self._cover_secrets(write_request(request)) if whole_request else None
        body = self._cover_secrets(body)
        if asked is not None:
            body = f'{body[:-1]}, "request": {asked}}}'
        return WrittenStep(body, asked)

    def _collect_changes(
        self, state: RunState, partial: Mapping[str, Any], form: Form
    ) -> dict[str, Any]:
        """What a new state would not have: empty values are left out."""
        scalars = zip(_SCALARS, _read_scalars(state), strict=True)
        changes: dict[str, Any] = {name: value for name, value in scalars if value}
        changes["step"] = next_step(state).value
        if len(state.turns) > self._turns:
            changes["turns"] = [write_turn(turn, form) for turn in state.turns[self._turns :]]
        if len(state.logs) > self._logs:
            changes["logs"] = [form(log) for log in state.logs[self._logs :]]
        if state.calls:
            changes["calls"] = [write_call(call, form) for call in state.calls]
        if partial:
            changes["partial"] = list(partial)
        if state.answered:
            changes["answered"] = [write_outcome(outcome) for outcome in state.answered]
        if state.step is Step.CHECK:
            changes["text"] = state.text
        return changes

    def _cover_secrets(self, text: str) -> str:
        if not self._secrets:
            return text
        return dump_json(redact_data(parse_json(text, MAX_WRAPPED), self._secrets), MAX_WRAPPED)


def next_step(state: RunState) -> Step:
    """The step with which a run continues, even if it was interrupted."""
    if state.step is not Step.INTERRUPTED:
        return state.step
    return Step.CALL if state.turns else Step.PLAN


def read_state(steps: Sequence[Mapping[str, Any]]) -> RunState:
    """The state of a run after these steps."""
    state = RunState()
    for body in steps:
        state.turns += map(read_turn, body.get("turns", ()))
        state.logs = (*state.logs, *body.get("logs", ()))
    last = steps[-1]
    state.step = Step(last["step"])
    for name in _SCALARS:
        # Empty values are not written, nor those that an earlier version did not know.
        setattr(state, name, last.get(name, getattr(state, name)))
    state.calls = [read_run_call(call) for call in last.get("calls", ())]
    state.partial = frozenset(last.get("partial", ()))
    known = {call.id: call for call in state.calls}
    state.answered = [read_outcome(known[each["id"]], each) for each in last.get("answered", ())]
    state.text = last.get("text", "")
    replies = [turn for turn in state.turns if isinstance(turn, Reply)]
    state.reply = replies[-1] if replies else None
    return state


def write_request(request: Request) -> str:
    """The request as JSON."""
    slots = request.prompt.values()
    output = slots.pop("output", None)
    written = {
        "prompt": DataFormatter.sanitize(slots),
        "output": write_output(output),
        "strategy": request.strategy.name,
        "max_rounds": request.max_rounds,
        "session": request.session,
        "deps": request.deps is not None,
    }
    if request.around:
        written["around"] = request.around
    if request.nesting is not None:
        written["nesting"] = request.nesting.to_dict()
    return bound_writer(_encoder.encode, written, MAX_WRAPPED)


def read_request(
    run_id: str, data: Mapping[str, Any], request: Request, strategy: Strategy
) -> Request:
    """The original request of an agent, with the agent's current model, tools and handlers."""
    try:
        output = read_recorded_output(data["output"])
    except LostType as error:
        raise StateRefused(
            f"The answer should be of the type {error}, which is not found in this process. "
            "Define it in a module that this process can import."
        ) from None
    slots = dict(data["prompt"]) if output is None else {**data["prompt"], "output": output}
    return replace(
        request,
        prompt=Prompt(slots),
        strategy=strategy,
        max_rounds=data["max_rounds"],
        session=data["session"],
        nesting=read_nesting(run_id, data.get("nesting")),
        around=read_around(data.get("around")),
    )
