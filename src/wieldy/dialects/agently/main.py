"""Agently's entrance: settings, tools and agents that share them."""

from collections.abc import AsyncGenerator, Generator, Iterable, Mapping
from typing import Any, Self

from wieldy.agent.default_agent import Agent
from wieldy.agent.model_choice import choose_model
from wieldy.agent.prompt import Prompt
from wieldy.agent.response import Response
from wieldy.agent.response_stream import StreamType
from wieldy.core.names import listed_names
from wieldy.core.tool import Tool
from wieldy.models.model import Model

from .settings import REQUESTER, AgentlySettings
from .tool_manager import AgentlyToolManager, known_tags

_DEFAULT_MODEL = "gpt-4.1"
_SPECIFIC = ("reasoning_delta", "delta", "done", "tool_calls")
_NOT_GIVEN: tuple[Any, ...] = (None, "", {})


class AgentlyResponse(Response):
    """A response with the names that Agently gives to some things."""

    @property
    def result(self) -> Self:
        """The response itself."""
        return self

    def get_async_generator(
        self,
        type: StreamType = "delta",
        *,
        events: Iterable[str] | str | None = None,
        specific: Iterable[str] | str | None = None,
    ) -> AsyncGenerator[Any]:
        """The answer while it comes; `specific` is another name for `events`."""
        return super().get_async_generator(type, events=_events(type, events, specific))

    def get_generator(
        self,
        type: StreamType = "delta",
        *,
        events: Iterable[str] | str | None = None,
        specific: Iterable[str] | str | None = None,
    ) -> Generator[Any]:
        """The answer while it comes; `specific` is another name for `events`."""
        return super().get_generator(type, events=_events(type, events, specific))


class AgentlyAgent(Agent):
    """An agent whose model is in the settings, and whose tools are those of all agents.

    A tool of a name that is taken replaces the other one, as in Agently.
    """

    _response_type = AgentlyResponse
    settings: AgentlySettings

    def __init__(
        self, main: "AgentlyMain", name: str | None = None, model: str | Model | None = None
    ) -> None:
        super().__init__(model, name=name, toolbox=main.tool.toolbox)
        self.settings = AgentlySettings(parent=main.settings)
        self.tool = main.tool
        self._chosen: tuple[Any, Model] | None = None

    @property
    def model(self) -> Model:
        """The model that the settings name, unless one was given."""
        if self._given_model[0] is not None:
            return super().model
        wanted = self.settings.get(REQUESTER) or {}
        if self._chosen is None or self._chosen[0] != wanted:
            self._chosen = (wanted, _open_model(wanted))
        return self._chosen[1]

    def set_settings(
        self, key: str, value: Any, *, auto_load_env: bool = False, raise_empty: bool = False
    ) -> Self:
        """Change a setting of this agent."""
        self.settings.set_settings(key, value, auto_load_env=auto_load_env, raise_empty=raise_empty)
        return self

    def get_result(self) -> Response:
        """Take what was written as a request; the same as `get_response`."""
        return self.get_response()

    def set_action_results(self, results: Any) -> Self:
        """Tell all requests what actions gave."""
        self.agent_prompt.replace("action_results", results)
        return self

    def add_action_results(self, action: str, result: Any) -> Self:
        """Tell all requests what one more action gave."""
        self.agent_prompt.append("action_results", {action: result})
        return self

    def reset_action_results(self) -> Self:
        """Tell no more of what actions gave."""
        self.agent_prompt.remove("action_results")
        return self

    async def async_use_mcp(
        self, transport: Any, tags: Iterable[str] | str | None = None, **options: Any
    ) -> Self:
        """Use the tools of an MCP server; where another agent uses it too, both have them."""
        if options:
            return await super().async_use_mcp(transport, tags=listed_names(tags), **options)
        await self.tool.async_use_mcp(transport, (*listed_names(tags), self.tag))
        return self

    def _add(self, tool: Tool) -> None:
        known = known_tags(self.toolbox, tool.name)
        super()._add(tool.replace(tags=(*known, *tool.tags)))

    def _may_replace(self, tool: Tool) -> bool:
        return True


class AgentlyMain:
    """What `Agently` is: settings and tools, and agents that are made with them."""

    def __init__(self) -> None:
        self.settings = AgentlySettings()
        self.tool = AgentlyToolManager()

    def create_agent(
        self, name: str | None = None, *, model: str | Model | None = None
    ) -> AgentlyAgent:
        """An agent with these settings and tools.

        Args:
            name: Its name; only tools that are tagged with it, or given to it, are its own.
            model: A model other than the one of the settings, by name or as an object.
        """
        return AgentlyAgent(self, name, model)

    def create_prompt(self, name: str = "agently_prompt") -> Prompt:
        """A prompt of its own."""
        return Prompt()

    def set_settings(
        self, key: str, value: Any, *, auto_load_env: bool = False, raise_empty: bool = False
    ) -> Self:
        """Change a setting of all agents, such as the model under "OpenAICompatible"."""
        self.settings.set_settings(key, value, auto_load_env=auto_load_env, raise_empty=raise_empty)
        return self


def _open_model(wanted: Mapping[str, Any]) -> Model:
    """The model that Agently's settings for an OpenAI-compatible server describe."""
    name = wanted.get("model") or _DEFAULT_MODEL
    options = {**(wanted.get("request_options") or {}), **(wanted.get("options") or {})}
    auth = wanted.get("auth")
    headers = dict(wanted.get("headers") or {})
    key = wanted.get("api_key")
    if isinstance(auth, Mapping):
        key = auth.get("api_key", key)
        headers.update(auth.get("headers") or {})
    elif auth:
        key = auth
    more = {"headers": headers, "options": options}
    given = {each: value for each, value in more.items() if value not in _NOT_GIVEN}
    return choose_model(f"openai:{name}", wanted.get("base_url"), key, **given)


def _events(
    type: str, events: Iterable[str] | str | None, specific: Iterable[str] | str | None
) -> Iterable[str] | str | None:
    if type != "specific":
        return events
    return next((each for each in (events, specific) if each is not None), _SPECIFIC)
