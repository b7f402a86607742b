"""The agent, whose prompt is written slot by slot before a request is started."""

import uuid
from collections.abc import AsyncGenerator, Coroutine, Generator, Mapping
from types import TracebackType
from typing import Any, Self, TypeVar

from pydantic import BaseModel

from wieldy.core.limits.budget import Budget
from wieldy.core.limits.model_results import check_max_result
from wieldy.core.sync import blocking_border
from wieldy.models.model import Model
from wieldy.toolbox import Toolbox
from wieldy.view import View

from .extension_handlers import ExtensionHandlers
from .model_choice import choose_model
from .prices import Prices
from .prompt import Prompt, RequestPrompt
from .request import Decider, Request
from .request_preview import preview_requests
from .response import Response
from .resuming import Resuming
from .sent_requests import SentRequests
from .settings import Settings
from .strategies.judge import Judge
from .strategies.native import Native
from .strategies.strategy import Strategy
from .strategies.xml import Xml
from .subagents.shared_toolbox import AgentHome

T = TypeVar("T")
Mappings = Mapping[str, Any] | None
# The request is fixed when the method is called, not when its result is awaited.
Asked = Coroutine[Any, Any, T]
STRATEGIES: dict[str, type[Judge] | type[Native] | type[Xml]] = {
    "judge": Judge,
    "native": Native,
    "xml": Xml,
}


class BaseAgent(Resuming):
    """A model with a prompt, to which each request adds its own.

    The methods that write to a prompt return the agent, so that they can be chained.

    Args:
        model: A name such as "openai:gpt-5", or a model object.
        base_url: Where the model is, if not where its provider has it.
        api_key: The key; without it that of the provider's environment variable.
        name: The agent's name; tools are tagged with it, and calls made in it.
        toolbox: The tools; without it the agent has a toolbox of its own.
        tool_strategy: "judge", "native" or "xml".
        max_rounds: How many rounds with tools "native" and "xml" may take.
        store: Where calls and chat sessions are kept, such as "sqlite:///wieldy.db".
        settings: Settings that this agent's own are looked up in last.
        budget: What each run may use up; see `Budget`.
        prices: What tokens cost, by the model's name: `(per million in, per million out)`. Or a
            function from the name and the tokens of a request to its cost.
        max_result: How many characters of one result the model reads, 0 for all; without it the
            toolbox's number.

    Raises:
        ValueError: An argument has a value that it can't have.

    Example:
        `agent.input("Who wrote Emma?").output({"author": (str, "full name")}).start()`
    """

    def __init__(
        self,
        model: str | Model | None = None,
        base_url: str | None = None,
        api_key: Any = None,
        name: str | None = None,
        toolbox: Toolbox | None = None,
        tool_strategy: str = "judge",
        max_rounds: int = 5,
        store: str | None = None,
        *,
        settings: Settings | None = None,
        budget: Budget | None = None,
        prices: Prices | None = None,
        max_result: int | None = None,
    ) -> None:
        if tool_strategy not in STRATEGIES:
            known = ", ".join(map(repr, STRATEGIES))
            raise ValueError(f"tool_strategy is one of {known}, not {tool_strategy!r}.")
        if isinstance(max_rounds, bool) or not isinstance(max_rounds, int) or max_rounds < 0:
            raise ValueError(f"max_rounds is a whole number of 0 or more, not {max_rounds!r}.")
        self.id = uuid.uuid4().hex
        self.name = self.id[:7] if name is None else name
        self.settings = Settings(parent=settings)
        self.extension_handlers = ExtensionHandlers()
        self.agent_prompt = Prompt()
        self.request_prompt = RequestPrompt(self.agent_prompt)
        self.prompt = self.request_prompt
        self.tool_strategy = tool_strategy
        self.max_rounds = max_rounds
        self.budget = _check_budget(budget)
        self.prices = prices
        if max_result is not None:
            check_max_result(max_result)
        self.max_result = max_result
        self._home = AgentHome(_choose_box(toolbox, store), self, toolbox is None)
        self._given_model = (model, base_url, api_key)
        self._model: Model | None = None
        self._last: Response | None = None

    @property
    def model(self) -> Model:
        """The model that is asked."""
        if self._model is None:
            self._model = choose_model(*self._given_model)
        return self._model

    @property
    def toolbox(self) -> Toolbox:
        """The tools of this agent, and of others that share the toolbox."""
        return self._home.box

    @property
    def tag(self) -> str:
        """The tag of this agent's tools."""
        return f"agent-{self.name}"

    @property
    def tools(self) -> View:
        """The tools that this agent may see and call."""
        return self._home.find_view(self.name, self.tag)

    # Slots

    def system(self, value: Any, mappings: Mappings = None, *, always: bool = False) -> Self:
        """Set what the model should know before anything else.

        Args:
            value: Text, or data that is shown as text.
            mappings: What each `${name}` in the value stands for.
            always: Whether it holds for all requests of this agent, not only for the next.

        Example:
            `agent.system("Today is Monday.", always=True)`
        """
        return self._set_slot("system", value, mappings, always)

    def developer(self, value: Any, mappings: Mappings = None, *, always: bool = False) -> Self:
        """Set what the program's author tells the model, if the provider has that role.

        Args:
            value: Text, or data that is shown as text.
            mappings: What each `${name}` in the value stands for.
            always: Whether it holds for all requests of this agent, not only for the next.
        """
        return self._set_slot("developer", value, mappings, always)

    def role(self, value: Any, mappings: Mappings = None, *, always: bool = False) -> Self:
        """Set who the model should be.

        Args:
            value: Text, or data that is shown as text.
            mappings: What each `${name}` in the value stands for.
            always: Whether it holds for all requests of this agent, not only for the next.

        Example:
            `agent.role("A patient teacher", always=True)`
        """
        return self._set_slot("system.your_role", value, mappings, always)

    def rule(self, value: Any, mappings: Mappings = None, *, always: bool = False) -> Self:
        """Set what the model must keep to.

        Args:
            value: Text, or data that is shown as text.
            mappings: What each `${name}` in the value stands for.
            always: Whether it holds for all requests of this agent, not only for the next.
        """
        return self._set_slot("system.rule", value, mappings, always)

    def user_info(self, value: Any, mappings: Mappings = None, *, always: bool = False) -> Self:
        """Set what the model should know about the user.

        Args:
            value: Text, or data that is shown as text.
            mappings: What each `${name}` in the value stands for.
            always: Whether it holds for all requests of this agent, not only for the next.
        """
        return self._set_slot("system.user_info", value, mappings, always)

    def input(self, value: Any, mappings: Mappings = None, *, always: bool = False) -> Self:
        """Set the question, or the data that the request is about.

        Args:
            value: Text, or data that is shown as text.
            mappings: What each `${name}` in the value stands for.
            always: Whether it holds for all requests of this agent, not only for the next.

        Example:
            `agent.input("Who wrote Emma?").start()`
        """
        return self._set_slot("input", value, mappings, always)

    def info(self, value: Any, mappings: Mappings = None, *, always: bool = False) -> Self:
        """Set what the model may need to know.

        Args:
            value: Text, or data that is shown as text.
            mappings: What each `${name}` in the value stands for.
            always: Whether it holds for all requests of this agent, not only for the next.
        """
        return self._set_slot("info", value, mappings, always)

    def instruct(self, value: Any, mappings: Mappings = None, *, always: bool = False) -> Self:
        """Set what the model should do.

        Args:
            value: Text, or data that is shown as text.
            mappings: What each `${name}` in the value stands for.
            always: Whether it holds for all requests of this agent, not only for the next.
        """
        return self._set_slot("instruct", value, mappings, always)

    def examples(self, value: Any, mappings: Mappings = None, *, always: bool = False) -> Self:
        """Set examples of how it is done.

        Args:
            value: Text, or data that is shown as text.
            mappings: What each `${name}` in the value stands for.
            always: Whether it holds for all requests of this agent, not only for the next.
        """
        return self._set_slot("examples", value, mappings, always)

    def output(self, value: Any, mappings: Mappings = None, *, always: bool = False) -> Self:
        """Set what the answer should be.

        Args:
            value: Nested dicts and lists of `(type, description)`, a pydantic model, a JSON
                Schema, or a type. `str` means text.
            mappings: What each `${name}` in the value stands for.
            always: Whether it holds for all requests of this agent, not only for the next.

        Example:
            `agent.output({"author": (str, "full name")})`
        """
        return self._set_slot("output", value, mappings, always)

    def attachment(self, value: Any, mappings: Mappings = None, *, always: bool = False) -> Self:
        """Attach pictures and files.

        Args:
            value: Parts in the form of OpenAI's chat API.
            mappings: What each `${name}` in the value stands for.
            always: Whether it holds for all requests of this agent, not only for the next.
        """
        return self._set_slot("attachment", value, mappings, always)

    def options(self, value: Any, mappings: Mappings = None, *, always: bool = False) -> Self:
        """Set what is passed on to the provider as it is.

        Args:
            value: A dict of request fields.
            mappings: What each `${name}` in the value stands for.
            always: Whether it holds for all requests of this agent, not only for the next.

        Example:
            `agent.options({"temperature": 0})`
        """
        return self._set_slot("options", value, mappings, always)

    def set_agent_prompt(self, key: str, value: Any, mappings: Mappings = None) -> Self:
        """Set a slot for all requests.

        Args:
            key: The slot's name, such as "system" or "system.rule".
            value: What the slot holds.
            mappings: What each `${name}` in the value stands for.
        """
        return self._set_slot(key, value, mappings, always=True)

    def set_request_prompt(self, key: str, value: Any, mappings: Mappings = None) -> Self:
        """Set a slot for the next request.

        Args:
            key: The slot's name, such as "input" or "system.rule".
            value: What the slot holds.
            mappings: What each `${name}` in the value stands for.
        """
        return self._set_slot(key, value, mappings, always=False)

    def remove_agent_prompt(self, key: str) -> Self:
        """Take a slot out of all requests.

        Args:
            key: The slot's name.
        """
        self.agent_prompt.remove(key)
        return self

    def remove_request_prompt(self, key: str) -> Self:
        """Take a slot out of the next request.

        Args:
            key: The slot's name.
        """
        self.request_prompt.remove(key)
        return self

    def set_chat_history(self, messages: Any) -> Self:
        """Replace the conversation so far.

        Args:
            messages: One message or a list of them, such as `{"role": "user", "content": "Hi"}`.
        """
        self.agent_prompt.replace("chat_history", _list_messages(messages))
        return self

    def add_chat_history(self, messages: Any) -> Self:
        """Add to the conversation so far.

        Args:
            messages: One message or a list of them, such as `{"role": "user", "content": "Hi"}`.
        """
        self.agent_prompt.set("chat_history", _list_messages(messages))
        return self

    def reset_chat_history(self) -> Self:
        """Forget the conversation so far."""
        self.agent_prompt.remove("chat_history")
        return self

    def set_settings(self, key: str, value: Any) -> Self:
        """Change a setting of this agent.

        Args:
            key: The setting's name.
            value: Its new value.
        """
        self.settings.set_settings(key, value)
        return self

    # Requests

    def get_response(self, *, decide: Decider | None = None, deps: Any = None) -> Response:
        """Take what was written as a request. The model is asked when the answer is read.

        Args:
            decide: An async function that decides on a call that needs a person, while the request
                waits. It gets the receipt and returns the outcome, or the receipt itself to leave
                the call pending.
            deps: What tools get through their `Context`, such as the current user. It is not
                kept: a run that goes on later is given it again.

        Returns:
            The response, which can be read in several ways.

        Example:
            `response = agent.input("Who wrote Emma?").get_response()`
        """
        return self._respond(self.request_prompt.take(), decide, deps)

    def start(self, *, deps: Any = None, **options: Any) -> Any:
        """Ask, and return the answer's data.

        Args:
            deps: What tools get through their `Context`.
            **options: The options of `Response.async_get_data`.

        Returns:
            Text, or what `output()` asked for.

        Raises:
            RunInterrupted: A call waits for a person; `pending` has it, and `resume` goes on.
            ModelError: The model gave no answer that can be used.
            KeysMissing: Keys that `ensure_keys` names are missing.

        Example:
            `agent.input("Who wrote Emma?").start()`
        """
        return self.get_response(deps=deps).get_data(**options)

    def async_start(self, *, deps: Any = None, **options: Any) -> Asked[Any]:
        """Ask, and return the answer's data, like `start`.

        Args:
            deps: What tools get through their `Context`.
            **options: The options of `Response.async_get_data`.

        Returns:
            Text, or what `output()` asked for.
        """
        return self.get_response(deps=deps).async_get_data(**options)

    def get_text(self) -> str:
        """Ask, and return the answer's text."""
        return self.get_response().get_text()

    def async_get_text(self) -> Asked[str]:
        """Ask, and return the answer's text."""
        return self.get_response().async_get_text()

    def get_data(self, **options: Any) -> Any:
        """Ask, and return the answer's data, like `start`.

        Args:
            **options: The options of `Response.async_get_data`.

        Returns:
            Text, or what `output()` asked for.
        """
        return self.get_response().get_data(**options)

    def async_get_data(self, **options: Any) -> Asked[Any]:
        """Ask, and return the answer's data, like `start`.

        Args:
            **options: The options of `Response.async_get_data`.

        Returns:
            Text, or what `output()` asked for.
        """
        return self.get_response().async_get_data(**options)

    def get_data_object(self, **options: Any) -> BaseModel:
        """Ask, and return the answer as a pydantic object.

        Args:
            **options: The options of `Response.async_get_data`.

        Raises:
            TypeError: No `output()` was defined, so that the answer is text.
        """
        return self.get_response().get_data_object(**options)

    def async_get_data_object(self, **options: Any) -> Asked[BaseModel]:
        """Ask, and return the answer as a pydantic object.

        Args:
            **options: The options of `Response.async_get_data`.

        Raises:
            TypeError: No `output()` was defined, so that the answer is text.
        """
        return self.get_response().async_get_data_object(**options)

    def get_meta(self) -> dict[str, Any]:
        """Ask, and return the model's name, the tokens used, and why the answer ended."""
        return self.get_response().get_meta()

    def async_get_meta(self) -> Asked[dict[str, Any]]:
        """Ask, and return the model's name, the tokens used, and why the answer ended."""
        return self.get_response().async_get_meta()

    def get_generator(self, type: Any = "delta", **options: Any) -> Generator[Any]:
        """Ask, and iterate over the answer while it comes.

        Args:
            type: What to iterate over; see `Response.get_async_generator`.
            **options: `events`, the names of the events for the type "specific".

        Returns:
            The pieces, as they come.

        Example:
            `for piece in agent.input("Tell a story.").get_generator(): print(piece, end="")`
        """
        return self.get_response().get_generator(type, **options)

    def get_async_generator(self, type: Any = "delta", **options: Any) -> AsyncGenerator[Any]:
        """Ask, and iterate over the answer while it comes.

        Args:
            type: What to iterate over; see `Response.get_async_generator`.
            **options: `events`, the names of the events for the type "specific".

        Returns:
            The pieces, as they come.
        """
        return self.get_response().get_async_generator(type, **options)

    def explain(self) -> SentRequests:
        """Show the messages that would be sent, or those that were sent last if nothing is written.

        With the strategy "judge" and tools, the second request is shown without a result.

        Returns:
            The request bodies, with estimates of their tokens.

        Example:
            `print(agent.input("Who wrote Emma?").explain())`
        """
        if not self.request_prompt.get(inherit=False) and self._last is not None:
            return self._last.explain()
        request = self._make_request(self.request_prompt.values())
        return SentRequests(request.model, preview_requests(request), sent=False)

    # Ending

    async def async_close(self) -> None:
        """Close the toolbox, if it is this agent's own."""
        if self._home.owner == self.id:
            await self.toolbox.close()

    def close(self) -> None:
        """Close the toolbox, if it is this agent's own."""
        blocking_border().wait(lambda home: self.async_close())

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.async_close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    # Helpers for the extensions

    def _respond(
        self, slots: dict[str, Any], decide: Decider | None = None, deps: Any = None
    ) -> Response:
        self._last = self._begin(self._make_request(slots, decide, deps))
        return self._last

    def _begin(self, request: Request) -> Response:
        return self._response_type(request)

    def _make_request(
        self, slots: dict[str, Any], decide: Decider | None = None, deps: Any = None
    ) -> Request:
        return Request(
            agent=self.name,
            model=self.model,
            box=self.toolbox,
            view=self.tools,
            prompt=Prompt(slots),
            settings=self.settings.snapshot(),
            handlers=self.extension_handlers.snapshot(),
            strategy=self._make_strategy(),
            max_rounds=self.max_rounds,
            session=self._session(),
            decide=decide,
            deps=deps,
            budget=self.budget,
            max_result=self.max_result,
            prices=self.prices,
        )

    def _make_strategy(self) -> Strategy:
        return Strategy()

    def _find_strategy(self, name: str) -> Strategy:
        """The way of using tools that a run began with."""
        return STRATEGIES[name](self.tools) if name in STRATEGIES else Strategy()

    def _session(self) -> str | None:
        """The session in which calls are made."""
        return None

    def _set_slot(self, key: str, value: Any, mappings: Mappings, always: bool) -> Self:
        prompt = self.agent_prompt if always else self.request_prompt
        prompt.set(key, value, mappings)
        return self


def _choose_box(toolbox: Toolbox | None, store: str | None) -> Toolbox:
    if toolbox is None:
        return Toolbox(store=store)
    if store is not None and not (toolbox.recorded and toolbox.store.is_at(store)):
        raise ValueError(
            "store= names another store than the toolbox has. Leave it out, or give the "
            "toolbox the store: Toolbox(store=…)."
        )
    return toolbox


def _check_budget(budget: Budget | None) -> Budget | None:
    if budget is not None and not isinstance(budget, Budget):
        raise TypeError(f"budget takes a Budget(calls=…), not {budget!r:.200}")
    return budget


def _list_messages(messages: Any) -> list[Any]:
    return list(messages) if isinstance(messages, list | tuple) else [messages]
