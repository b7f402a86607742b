"""Ask the client's user about a waiting call, in a way that the client supports."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any, cast

from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata
from mcp_types import (
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    CreateMessageRequest,
    CreateMessageResult,
    ElicitRequest,
    ElicitResult,
    InputRequiredResult,
    ListRootsRequest,
    ListRootsResult,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import BaseModel, ValidationError

from wieldy.core.call import Call, Outcome, Status
from wieldy.core.errors import WieldyError
from wieldy.core.limits.off_loop import is_large, run_off_loop
from wieldy.core.permission.deciders import DECIDING, IN_CLIENT
from wieldy.core.permission.decisions import attended_call
from wieldy.core.permission.parked import Parked, make_receipt
from wieldy.core.streaming import TellingSink
from wieldy.core.tool import Tool

from .call_results import (
    PERSON_HERE,
    Answer,
    call_answer,
    failure_answer,
    waiting_answer,
    waiting_run_answer,
)
from .callers import current_identity, look_up_again
from .offer import Decider, ServedBox
from .progress import Teller
from .questions import APPROVE, Question, approval_question, input_question, missing_capabilities

Request = ServerRequestContext[Any, Any]
# The requests that a client may get, and the shapes of its answers.
SENT: dict[str, tuple[type[BaseModel], type[BaseModel]]] = {
    "elicitation/create": (ElicitRequest, ElicitResult),
    "sampling/createMessage": (CreateMessageRequest, CreateMessageResult),
    "roots/list": (ListRootsRequest, ListRootsResult),
}


class Elicitation:
    """Turns waiting calls into questions, and their answers into decisions.

    Nothing runs twice: the call is stored, its decision is a compare-and-set, and an answer that
    is sent again gets the recorded outcome.
    """

    def __init__(
        self, box: ServedBox, enabled: bool, patience: float, check_output: bool = True
    ) -> None:
        self._box = box
        self._enabled = enabled
        self._patience = patience
        self._check = check_output

    async def settle(
        self,
        ctx: Request,
        by: str | None,
        outcome: Outcome,
        tool: Tool | None,
        given: Mapping[str, Any] | None = None,
    ) -> Answer | InputRequiredResult:
        """The answer to the client: the outcome of its call, or what is needed before that.

        Answers that were `given` with the call are used for the first question of its tool.
        They can't approve a call before the question has been asked.
        """
        while outcome.status is Status.PENDING:
            question = await self._make_question(outcome, tool)
            if question is None or not _can_ask(ctx, question):
                break
            if not question.requests:
                return await self._tell_waiting(
                    outcome, tool, "the arguments are too many to be shown here"
                )
            answers, given = given, None
            if question.kind == "approve" or not answers or not question.answered(answers):
                if is_modern(ctx):
                    return _input_required(question)
                found = await self._asked_or_decided(ctx, question)
                if isinstance(found, Outcome):
                    outcome = await self.follow_decision(question, found, Teller(ctx).tell)
                    continue
                answers = found
            if answers is None:
                return await self._tell_waiting(outcome, tool, "nobody answered in time")
            ended = await self.apply_answers(question, answers, by)
            if not isinstance(ended, Outcome):
                return ended
            outcome = await self.follow_decision(question, ended, Teller(ctx).tell)
        if outcome.status is Status.PENDING:
            return await self._tell_waiting(outcome, tool)
        shown = await self._box.results.for_model(outcome)
        return call_answer(shown, tool, self._check)

    async def _tell_waiting(
        self, outcome: Outcome, tool: Tool | None, why: str | None = None
    ) -> Answer:
        """Say that a call waits; of an agent's, what its run waits for, and how to come back."""
        if tool is None or not tool.resumable or "waits_for" not in outcome.metadata:
            return waiting_answer(outcome, why)
        below = await cast(Decider, self._box).pending(below=outcome.call.id)
        return waiting_run_answer(outcome, below, why)

    async def resume(
        self, ctx: Request, by: str | None, state: str, answers: Mapping[str, Any]
    ) -> Answer | InputRequiredResult:
        """Continue a call after its question has come back, answered or not."""
        question = Question.from_state(state)
        later = await self._later_question(question)
        if later is not None or not question.answered(answers):
            return _input_required(later or question)
        ended = await self.apply_answers(question, answers, by)
        if not isinstance(ended, Outcome):
            return ended
        ended = await self.follow_decision(question, ended, Teller(ctx).tell)
        return await self.settle(ctx, by, ended, self._box.get(ended.call.tool))

    async def _later_question(self, question: Question) -> Question | None:
        """The current question of the tool, if these answers belong to an earlier one.

        An answer that is sent again must not become the answer to the next question.
        """
        if question.kind == "input":
            for parked in await cast(Decider, self._box).pending():
                if parked.id != question.call_id:
                    continue
                server = _server_name(self._box.get(parked.tool))
                asked = input_question(make_receipt(parked), asking_agent(parked), server)
                if asked is not None and asked.requests != question.requests:
                    return replace(asked, around=question.around)
        return None

    async def follow_decision(
        self, question: Question, decided: Outcome, tell: Callable[[Any], Awaitable[None]]
    ) -> Outcome:
        """The state of the client's own call after a question about it was decided."""
        if question.around is None:
            return decided
        sink = TellingSink(tell)
        outcome = await cast(Decider, self._box).go_on(question.around, sink=sink)
        await sink
        return outcome

    async def _make_question(self, outcome: Outcome, tool: Tool | None) -> Question | None:
        """The question to ask, or None if this client's user can't help."""
        if not hasattr(self._box, "approve"):
            # A view can't take decisions.
            return None
        if "waits_for" not in outcome.metadata:
            return await self.ask_about(outcome, tool)
        around = outcome.call.id
        for parked in await cast(Decider, self._box).pending(below=around):
            tool = self._box.get(parked.tool)
            asked = await self.ask_about(make_receipt(parked), tool, asking_agent(parked))
            return None if asked is None else replace(asked, around=around)
        return None

    async def ask_about(
        self, outcome: Outcome, tool: Tool | None, asker: str | None = None
    ) -> Question | None:
        """The question about one waiting call, or None if this client's user can't help."""
        asked = input_question(outcome, asker, _server_name(tool))
        if asked is not None:
            return asked
        # A call that is already approved waits for a process that has the tool.
        if outcome.call.decision is not None or not await self._may_ask(outcome.call):
            return None
        much = is_large(outcome.call.arguments)
        return await run_off_loop(much, lambda: approval_question(outcome, tool, asker))

    async def _may_ask(self, call: Call) -> bool:
        """Whether this client's user may be asked to approve a call.

        It is a question of the client that makes the call, so a rule can want more than that.
        """
        known = current_identity()
        if not self._enabled or (known is not None and DECIDING.isdisjoint(known.roles)):
            return False
        try:
            box: Any = self._box
            found = await box.explain_permission(call.tool, call.arguments, scope=call.scope)
        except WieldyError:
            # The tool or the rules are not as they were, or can't be read.
            return False
        return all(rule.elicitation for rule in found.matched)

    async def apply_answers(
        self, question: Question, answers: Mapping[str, Any], by: str | None
    ) -> Outcome | Answer:
        """Apply the answers; returns a message if that is not possible."""
        try:
            return await self.decide(question, answers, by)
        except WieldyError as error:
            return failure_answer(str(error))

    async def decide(
        self, question: Question, answers: Mapping[str, Any], by: str | None
    ) -> Outcome | Answer:
        """Apply the answers; returns a message if nothing was decided."""
        # The client's own call continues afterwards, with the client as its listener.
        token = attended_call.set(question.around)
        try:
            if question.kind == "input":
                sent = {key: plain_answer(answers[key]) for key in question.requests}
                return await cast(Decider, self._box).answer(
                    question.call_id, sent, by=by, check_output=self._check
                )
            return await self._apply_verdict(question, plain_answer(answers[APPROVE]), by)
        finally:
            attended_call.reset(token)

    async def _apply_verdict(
        self, question: Question, said: Mapping[str, Any], by: str | None
    ) -> Outcome | Answer:
        # The question may have been asked long ago, when its user still could.
        await look_up_again()
        box: Any = self._box
        waits = f"The call of {question.tool} waits for approval as {question.call_id}"
        if not await self._may_ask((await box.desk.find(question.call_id)).call):
            return failure_answer(f"{waits}, and you may not give it. {PERSON_HERE}.")
        by = f"{by or 'somebody'}, {IN_CLIENT}"
        form = said.get("content") or {}
        if said.get("action") == "accept" and form.get(APPROVE) is True:
            approved: Outcome = await box.approve(question.call_id, by=by, check_output=self._check)
            return approved
        if said.get("action") in ("accept", "decline"):
            reason = form.get("reason")
            why = str(reason) if reason else None
            denied: Outcome = await box.deny(question.call_id, by=by, reason=why)
            return denied
        return failure_answer(f"{waits}: the question was closed. {PERSON_HERE}.")

    async def _asked_or_decided(
        self, ctx: Request, question: Question
    ) -> dict[str, Any] | Outcome | None:
        """The client's answers, or the outcome of the call if somebody else decides meanwhile."""
        if question.kind != "approve":
            return await self._asked_now(ctx, question)
        asked = asyncio.create_task(self._asked_now(ctx, question))
        decided = asyncio.create_task(cast(Decider, self._box).wait(question.call_id))
        try:
            await asyncio.wait((asked, decided), return_when=asyncio.FIRST_COMPLETED)
            return asked.result() if asked.done() else decided.result()
        finally:
            asked.cancel()
            decided.cancel()
            await asyncio.wait((asked, decided))

    async def _asked_now(self, ctx: Request, question: Question) -> dict[str, Any] | None:
        """The client's answers to requests sent while its own request waits; None without any."""
        if not ctx.session.can_send_request:
            return None
        answers: dict[str, Any] = {}
        for key, request in question.requests.items():
            sent, received = SENT[request["method"]]
            try:
                answers[key] = await ctx.session.send_request(
                    sent.model_validate(request),  # type: ignore[arg-type]
                    received,
                    request_read_timeout_seconds=self._patience,
                    metadata=ServerMessageMetadata(related_request_id=ctx.request_id),
                )
            except (MCPError, ValidationError):
                # The client refused, disconnected, or answered something else.
                return None
        return answers


def asking_agent(parked: Parked) -> str | None:
    """The agent whose run made a call; None for a call that a tool made."""
    return None if parked.scope.run is None else parked.scope.agent


def _server_name(tool: Tool | None) -> str | None:
    """The MCP server that a tool comes from, whose words its questions are."""
    mcp = tool is not None and tool.source.startswith("mcp:")
    return tool.source.removeprefix("mcp:") if mcp and tool is not None else None


def _can_ask(ctx: Request, question: Question) -> bool:
    """Whether this client supports the whole question.

    If a newer client does not support a question of the tool, an error of the protocol is raised.
    """
    missing = missing_capabilities(question.requests, ctx.session.client_capabilities)
    if missing and question.kind == "input" and question.around is None and is_modern(ctx):
        raise MCPError(
            MISSING_REQUIRED_CLIENT_CAPABILITY,
            f"The call of {question.tool} needs what the client has not declared. "
            f"It waits as {question.call_id}.",
            {"requiredCapabilities": missing},
        )
    return not missing


def is_modern(ctx: Request) -> bool:
    """Whether the client is asked with a result; an older client is asked with a request."""
    return ctx.protocol_version in MODERN_PROTOCOL_VERSIONS


def _input_required(question: Question) -> InputRequiredResult:
    return InputRequiredResult.model_validate(
        {"inputRequests": dict(question.requests), "requestState": question.to_state()}
    )


def plain_answer(value: Any) -> Any:
    """A client's answer as JSON."""
    if isinstance(value, BaseModel):
        return value.model_dump(by_alias=True, mode="json", exclude_none=True)
    return value
