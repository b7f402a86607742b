"""Resume a run of an agent that was interrupted, or that a crash ended."""

from abc import ABC, abstractmethod
from collections.abc import Coroutine, Mapping
from typing import Any

from .request import Decider, Request
from .response import Response
from .runs.given_decisions import read_decisions
from .runs.resumption import Resumption, State, read_pointer
from .strategies.strategy import Strategy

Decisions = Mapping[str, Mapping[str, Any]]


class Resuming(ABC):
    """Resumes runs, with the agent's current settings and the original request."""

    _response_type: type[Response] = Response

    def resume(
        self,
        run: State,
        decisions: Decisions | None = None,
        *,
        deps: Any = None,
        by: str | None = None,
        **options: Any,
    ) -> Any:
        """Go on with a run, and return the answer's data.

        Args:
            run: The run's id, or `RunInterrupted.state`.
            decisions: What was decided on the calls that the run waits for, by their ids:
                `{"approved": True}`, with `arguments` to run it with others, `reason` for a no,
                and `answers` where a tool asked for input. A call without a decision still waits.
            deps: What tools get through their `Context`, as `get_response` takes it.
            by: Who decided.
            **options: The options of `Response.async_get_data`.

        Returns:
            Text, or what `output()` asked for. A run that is done gives its recorded answer.

        Raises:
            RunInterrupted: Calls still wait, or new ones do.
            NotPending: A decision names a call that the run does not wait for.
            RunBusy: Somebody else carries the run on.
            RunNotFound: The store has no such run.
            StateRefused: The state was changed, or is of another agent, process or version.

        Example:
            `agent.resume(error.state, {error.pending[0].id: {"approved": True}})`
        """
        return self.resume_response(run, decisions, deps=deps, by=by).get_data(**options)

    def async_resume(
        self,
        run: State,
        decisions: Decisions | None = None,
        *,
        deps: Any = None,
        by: str | None = None,
        **options: Any,
    ) -> Coroutine[Any, Any, Any]:
        """Go on with a run, and return the answer's data, like `resume`.

        Args:
            run: The run's id, or `RunInterrupted.state`.
            decisions: What was decided on the calls that the run waits for, by their ids.
            deps: What tools get through their `Context`.
            by: Who decided.
            **options: The options of `Response.async_get_data`.

        Returns:
            Text, or what `output()` asked for.
        """
        return self.resume_response(run, decisions, deps=deps, by=by).async_get_data(**options)

    def resume_response(
        self,
        run: State,
        decisions: Decisions | None = None,
        *,
        deps: Any = None,
        by: str | None = None,
        decide: Decider | None = None,
    ) -> Response:
        """Go on with a run, and return a response with all its views.

        The run goes on when the response is read.

        Args:
            run: The run's id, or `RunInterrupted.state`.
            decisions: What was decided on the calls that the run waits for, by their ids.
            deps: What tools get through their `Context`.
            by: Who decided.
            decide: An async function that decides on further calls, as in `get_response`.

        Returns:
            The response.
        """
        request = self._make_request({}, decide, deps)
        return self._go_on(request, run, decisions, by, by_hand=True)

    def take_up(self, run_id: str, deps: Any = None) -> Response:
        """Go on with a stored run that waits or has crashed, as a `RunKeeper` does.

        Args:
            run_id: The run's id.
            deps: What tools get through their `Context`.

        Returns:
            The response. It raises `RunCancelled` if the run was ended since it was found.
        """
        return self._go_on(self._make_request({}, None, deps), run_id, only_left=True)

    def _go_on(
        self,
        request: Request,
        run: State,
        decisions: Decisions | None = None,
        by: str | None = None,
        only_left: bool = False,
        by_hand: bool = False,
    ) -> Response:
        """Go on with a run, with the model, the tools and the handlers of this request."""
        run_id, state = read_pointer(run)
        given = read_decisions(decisions)
        find_strategy = self._find_strategy
        resumption = Resumption(run_id, state, given, by, find_strategy, only_left, by_hand)
        return self._response_type(request, resumption)

    @abstractmethod
    def _make_request(
        self, slots: dict[str, Any], decide: Decider | None = None, deps: Any = None
    ) -> Request:
        """Make a request with these slots."""

    @abstractmethod
    def _find_strategy(self, name: str) -> Strategy:
        """The strategy for tools with which a run began."""
