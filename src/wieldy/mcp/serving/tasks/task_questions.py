"""What a task asks of its client, and the answers that come back."""

import asyncio
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, ClientCapabilities
from pydantic import ValidationError

from wieldy.core.call import Outcome
from wieldy.core.errors import AlreadyDecided
from wieldy.core.permission.parked import Parked, make_receipt
from wieldy.mcp.client.raw_requests import first_error
from wieldy.mcp.serving.callers import caller_name
from wieldy.mcp.serving.elicitation import SENT, Elicitation, asking_agent, plain_answer
from wieldy.mcp.serving.questions import APPROVE, Question, missing_capabilities

from .background_calls import BackgroundCalls, TaskTeller
from .task_calls import report_errors

_MAX_ASKED = 100


@dataclass(frozen=True, slots=True)
class OpenQuestion:
    """One waiting call, and what has to be answered about it."""

    parked: Parked
    question: Question

    @property
    def requests(self) -> dict[str, dict[str, Any]]:
        """The requests that have no answer yet, by keys that no other question of a task has."""
        return {
            self._key_of(name): request
            for name, request in self.question.requests.items()
            if self.question.kind == "approve" or name not in self.parked.given
        }

    def _key_of(self, name: str) -> str:
        # A tool may ask again under the same name, after it has run once more.
        asked = hashlib.sha256(f"{self.parked.id} {self.parked.begun!r}".encode()).hexdigest()
        return f"{name}-{asked[:12]}"

    def read_answers(self, sent: Mapping[str, Any]) -> dict[str, Any]:
        """The answers to this question among those that a client sent, by the tool's own names.

        Raises:
            MCPError: An answer does not have the shape that its request needs.
        """
        names = {self._key_of(name): name for name in self.question.requests}
        wanted = [key for key in self.requests if key in sent]
        return {names[key]: self._read_answer(key, names[key], sent[key]) for key in wanted}

    def _read_answer(self, key: str, name: str, sent: Any) -> dict[str, Any]:
        _, shape = SENT[self.question.requests[name]["method"]]
        try:
            answer: dict[str, Any] = plain_answer(shape.model_validate(sent, by_name=False))
        except ValidationError as error:
            raise MCPError(INVALID_PARAMS, f"{key}: {first_error(error)}") from None
        if self.question.kind == "approve" and answer["action"] == "accept":
            said = (answer.get("content") or {}).get(APPROVE)
            if not isinstance(said, bool):
                raise MCPError(INVALID_PARAMS, f"{key}: content.{APPROVE} must be true or false")
        return answer


class TaskQuestions:
    """Asks the clients of tasks, and applies their answers."""

    def __init__(self, box: Any, asking: Elicitation, background: BackgroundCalls) -> None:
        self._box = box
        self._asking = asking
        self._background = background

    async def find(
        self, task_id: str, waiting: Sequence[Parked], client: ClientCapabilities | None
    ) -> list[OpenQuestion]:
        """What a client can answer of what its task waits for."""
        found = []
        for parked in waiting[:_MAX_ASKED]:
            tool = self._box.get(parked.tool)
            receipt = make_receipt(parked)
            asked = await self._asking.ask_about(receipt, tool, asking_agent(parked))
            if asked is None or not asked.requests or missing_capabilities(asked.requests, client):
                continue
            around = None if parked.id == task_id else task_id
            found.append(OpenQuestion(parked, replace(asked, around=around)))
        return found

    async def take(self, task_id: str, asked: OpenQuestion, given: Mapping[str, Any]) -> None:
        """Apply answers. It returns when they are recorded; what follows goes on by itself."""
        parked, question = asked.parked, asked.question
        if question.kind == "input":
            given = {**parked.given, **given}
            if not question.answered(given):
                with report_errors():
                    await self._box.desk.note_answers(parked, given)
                return
        work = self._apply(task_id, question, given, caller_name())
        applying = self._background.start(task_id, work)
        decided = asyncio.create_task(self._until_decided(parked))
        try:
            await asyncio.wait((applying, decided), return_when=asyncio.FIRST_COMPLETED)
        finally:
            decided.cancel()
            await asyncio.wait((decided,))
        if applying.done():
            with report_errors():
                applying.result()

    async def _apply(
        self, task_id: str, question: Question, given: Mapping[str, Any], by: str | None
    ) -> None:
        try:
            ended = await self._asking.decide(question, given, by)
        except AlreadyDecided:
            # Somebody else was faster, and their decision holds.
            return
        if isinstance(ended, Outcome):
            teller = TaskTeller(self._background, task_id, None)
            await self._asking.follow_decision(question, ended, teller.tell)

    async def _until_decided(self, parked: Parked) -> None:
        asked = ("pending", parked.begun)
        await self._box.store.until(parked.id, lambda e: (e.state, e.started_at) != asked)
