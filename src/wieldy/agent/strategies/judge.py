"""A first request decides whether one tool is used, and its result goes into the second.

Where the toolbox has search tools, a tool that is found or loaded can be used after that.
"""

from contextlib import aclosing
from typing import Any

from wieldy.agent.data_fence import fence_text, outside_source, short_failure
from wieldy.agent.outcome_words import tell_outcome, tool_info
from wieldy.agent.output.output_form import OutputForm
from wieldy.agent.prompt_text import make_turns, value_text
from wieldy.agent.tool_log import show_arguments
from wieldy.core.call import Call, Outcome
from wieldy.core.discovery.session_listing import LOAD_TOOL, SEARCH_TOOL
from wieldy.models.model import ModelRequest, Reply
from wieldy.view import View
from wieldy.wire.incoming_calls import make_call
from wieldy.wire.stream_events import TextDelta
from wieldy.wire.structured.structured_stream import StructuredStream

from .strategy import PlanningRun, Strategy

_QUESTION = (
    "Judge if you need to use tool: is one of the tools listed in TOOLS needed before the input "
    "can be answered? If so, say which one, what for, and with which arguments. Do not answer the "
    "input itself."
)
_NOTICE = (
    "ACTION RESULTS holds what was found out for this input. Rely on it where it answers the "
    "input, and quote it or name its source where you use it."
)
_OUTPUT = {
    "use_tool": (bool, "Whether a tool is needed"),
    "tool_command": {
        "purpose": (str, "What the tool is used for, in a few words"),
        "tool_name": (str, "The name of the tool, as it stands in TOOLS"),
        "tool_kwargs": (dict, "The arguments of the tool, by the names of its kwargs"),
    },
}


class Judge(Strategy):
    """Sends two requests: one about the tool, and one for the answer."""

    name = "judge"

    def __init__(self, view: View) -> None:
        self._view = view

    def make_question(self, prompt: Any, options: Any, again: bool = False) -> ModelRequest:
        """The request before the answer: whether a tool is needed, and which."""
        slots = {
            "input": prompt.get("input"),
            "extra instruction": prompt.get("instruct"),
            "tools": [tool_info(tool) for tool in self._view],
            "instruct": _QUESTION,
        }
        if again:
            slots["action_results"] = prompt.get("action_results")
        return ModelRequest(make_turns(slots, OutputForm(_OUTPUT)), options=options)

    def list_for(self, session: str) -> View:
        self._view = self._view.view(session=session)
        return self._view

    async def plan(self, run: PlanningRun) -> None:
        while len(self._view):
            found = await self._use_tool(run)
            if found is None or not self._only_found(run, found):
                break
            # The tool only found or loaded others, so the question is asked again with these.
            run.count_round([found])
            run.state.judged = False

    def _only_found(self, run: PlanningRun, outcome: Outcome) -> bool:
        """Whether a call only found or loaded tools."""
        searches = run.request.box.has_session_lists
        return searches and outcome.call.tool in (SEARCH_TOOL, LOAD_TOOL)

    async def _use_tool(self, run: PlanningRun) -> Outcome | None:
        """Ask about a tool, and run it; None if none was used, or it waits for a decision."""
        state = run.state
        if not state.judged and run.find_limit() is not None:
            return None
        if not state.judged:
            await run.settle()
            await self._decide_tool(run)
            await run.settle()
        if not state.calls:
            return None
        (call,), purpose = state.calls, state.purpose
        (outcome,) = await run.run_calls([call], streams=False)
        if state.pending:
            return None
        state.calls = ()
        await self._tell_result(run, call, outcome, purpose)
        return outcome

    async def _tell_result(
        self, run: PlanningRun, call: Call, outcome: Outcome, purpose: str
    ) -> None:
        """Put the result of a call into the prompt, and all of it into the log."""
        prompt, tool = run.request.prompt, self._view.get(call.tool)
        result = _safe_result(outcome, tell_outcome(outcome, tool))
        shown = await run.request.for_model(outcome)
        told = result if shown is outcome else _safe_result(shown, tell_outcome(shown, tool))
        source = outside_source(outcome, tool)
        if source is not None:
            told = fence_text(value_text(told), source)
        before = dict(prompt.get("action_results") or {}) if run.state.round else {}
        prompt.set("action_results", {**before, purpose: told})
        prompt.set("extra_instruction", _NOTICE)
        run.add_log(
            {
                "tool_name": call.tool,
                "kwargs": show_arguments(call, tool),
                "purpose": purpose,
                "result": result,
            }
        )

    async def _decide_tool(self, run: PlanningRun) -> None:
        """Ask whether a tool is needed, and write the result to the state."""
        state = run.state
        question = self.make_question(run.request.prompt, run.options, again=state.round > 0)
        command = await self._ask_judge(run, question)
        if command is not None:
            name, state.purpose, kwargs = command
            place = f"judge-{state.round}" if state.round else "judge"
            state.calls = run.name_calls([make_call(self._view, name, kwargs)], place)
        state.judged = True

    async def _ask_judge(
        self, run: PlanningRun, question: ModelRequest
    ) -> tuple[str, str, Any] | None:
        """The model's command; None if it gave none that can be run."""
        stream = OutputForm(_OUTPUT).open_stream()
        verdict = _Verdict()
        async with aclosing(run.watch(question)) as events:
            async for event in events:
                if isinstance(event, TextDelta) and verdict.read(stream, event.text):
                    break
                if isinstance(event, Reply) and not stream.started and event.text:
                    # A model that does not stream says all in its reply.
                    verdict.read(stream, event.text)
        return verdict.command


class _Verdict:
    """The part of the model's answer about a tool that has arrived so far."""

    def __init__(self) -> None:
        self._wanted: bool | None = None
        self._command: Any = None

    def read(self, stream: StructuredStream, text: str) -> bool:
        """Read more text; returns True if nothing more has to be read."""
        for event in stream.feed(text):
            if event.is_complete and event.path == "use_tool":
                self._wanted = _is_true(event.value)
            elif event.is_complete and event.path == "tool_command":
                self._command = event.value
        return self._wanted is False or (self._wanted is True and self._command is not None)

    @property
    def command(self) -> tuple[str, str, Any] | None:
        """Name, purpose and arguments; None unless a tool is wanted and the command is complete."""
        command = self._command
        if self._wanted is not True or not isinstance(command, dict):
            return None
        name = command.get("tool_name")
        if not isinstance(name, str) or not name.strip():
            return None
        purpose = command.get("purpose")
        named = purpose if isinstance(purpose, str) and purpose.strip() else name
        return name.strip(), named, command.get("tool_kwargs")


def _is_true(value: Any) -> bool:
    if isinstance(value, str):
        return value.strip().lower() in ("true", "yes", "1")
    # A list or an object does not answer the question.
    return isinstance(value, int | float) and bool(value)


def _safe_result(outcome: Outcome, told: Any) -> Any:
    """The result for the model, or its text if the value contains a secret."""
    if outcome.metadata.get("covered"):
        return outcome.text
    return short_failure(told) if isinstance(told, str) and not outcome.ok else told
