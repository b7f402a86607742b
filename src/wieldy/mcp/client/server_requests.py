"""Answer questions that a server asks during a call."""

import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import mcp_types as types
from pydantic import ValidationError

from wieldy.core.loop_bridge import run_on_loop
from wieldy.core.sync import LoopThread
from wieldy.core.task import time_limit

from .request_extras import RequestExtras

Answer = Mapping[str, Any] | None
OnRequest = Callable[[dict[str, Any]], Awaitable[Answer] | Answer]
_log = logging.getLogger("wieldy.mcp")


def pass_to_client(request: dict[str, Any]) -> Answer:
    """Let the client of a served toolbox answer, if it is the client's call that asks.

    This is for `on_sample` and `on_elicit` of `add_mcp`. A request that belongs to no client's
    call is declined.

    Args:
        request: The request, in MCP's JSON shape.

    Returns:
        None. The answer comes from the client.

    Example:
        `await box.add_mcp(source, on_sample=pass_to_client)`
    """
    return None


class RequestAnswers:
    """Answers the questions of older servers, whose calls keep running meanwhile.

    The callbacks are the user's code. They run on a loop of their own, so that a callback that
    blocks does not block a connection. A question that is not answered in time is cancelled.
    """

    def __init__(
        self,
        thread: LoopThread,
        seconds: float,
        on_elicit: OnRequest | None,
        on_sample: OnRequest | None,
    ) -> None:
        self._thread = thread
        self._seconds = seconds
        self._on_elicit = on_elicit
        self._on_sample = on_sample
        # Finds the request that a question belongs to.
        self.find_errand: Callable[[], RequestExtras | None] = lambda: None

    @property
    def samples(self) -> bool:
        """Whether there is a callback that answers as a model."""
        return self._on_sample is not None

    async def elicit(self, context: Any, params: Any) -> types.ElicitResult | types.ErrorData:
        """Answer a question for the user."""
        callback = self._find_callback(self._on_elicit)
        if callback is None:
            return types.ElicitResult(action="decline")
        try:
            answer = await self._ask_callback(callback, "elicitation/create", params)
        except TimeoutError:
            return types.ElicitResult(action="cancel")
        except Exception as error:
            return _failure_data(error)
        if answer is None:
            return types.ElicitResult(action="decline")
        try:
            return types.ElicitResult.model_validate(answer)
        except ValidationError as error:
            return _failure_data(error)

    async def sample(
        self, context: Any, params: Any
    ) -> types.CreateMessageResult | types.ErrorData:
        """Answer a question for a model."""
        callback = self._find_callback(self._on_sample)
        try:
            answer = None
            if callback is not None:
                answer = await self._ask_callback(callback, "sampling/createMessage", params)
            if answer is None:
                return types.ErrorData(code=types.INVALID_REQUEST, message="it was declined")
            return types.CreateMessageResult.model_validate(answer)
        except Exception as error:
            return _failure_data(error)

    def _find_callback(self, given: OnRequest | None) -> OnRequest | None:
        """The user's function, or else the client whose call the question is about."""
        if given is not None and given is not pass_to_client:
            return given
        errand = self.find_errand()
        return None if errand is None else errand.ask

    async def _ask_callback(self, callback: OnRequest, method: str, params: Any) -> Answer:
        shown = params.model_dump(by_alias=True, mode="json", exclude_none=True)

        async def answer() -> Answer:
            given = callback({"method": method, "params": shown})
            return await given if inspect.isawaitable(given) else given

        async with time_limit(self._seconds):
            return await run_on_loop(self._thread, answer)


def _failure_data(error: Exception) -> types.ErrorData:
    # The callback is the user's code. The server gets no answer; the log says why.
    _log.warning("A question of a server was not answered: %r", error)
    return types.ErrorData(code=types.INTERNAL_ERROR, message="there is no answer")
