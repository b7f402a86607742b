"""A request that is written separately, and not on an agent."""

from typing import TYPE_CHECKING, Any, Self

from wieldy.agent.agent import Mappings
from wieldy.agent.prompt import Prompt, RequestPrompt
from wieldy.agent.strategies.strategy import Strategy
from wieldy.toolbox import Toolbox
from wieldy.view import View

from .configured_agent import ConfiguredAgent
from .settings import AgentlySettings

if TYPE_CHECKING:
    from .agently_agent import AgentlyAgent


class AgentlyRequest(ConfiguredAgent):
    """A request that is written and started in the same way as an agent.

    Args:
        parent: The settings that hold where it has none of its own.
        toolbox: The box in which tools are called.
        name: Who asks.
        prompt: What it inherits.
        agent: The agent whose tools and handlers it has; without one it has none.
    """

    def __init__(
        self,
        parent: AgentlySettings,
        toolbox: Toolbox,
        *,
        name: str | None = None,
        prompt: Prompt | None = None,
        agent: "AgentlyAgent | None" = None,
        **options: Any,
    ) -> None:
        super().__init__(
            name="Directly Request" if name is None else name,
            toolbox=toolbox,
            parent=parent,
            **options,
        )
        self.agent_prompt = Prompt() if prompt is None else prompt
        self.request_prompt = RequestPrompt(self.agent_prompt)
        self.prompt = self.request_prompt
        self._agent = agent
        if agent is not None:
            self.extension_handlers = agent.extension_handlers.snapshot()

    @property
    def tools(self) -> View:
        """The tools of the agent whose extension handlers the request inherits."""
        return super().tools if self._agent is None else self._agent.tools

    def set_prompt(self, key: str, value: Any, mappings: Mappings = None) -> Self:
        """Set a slot."""
        return self.set_request_prompt(key, value, mappings)

    def _make_strategy(self) -> Strategy:
        return Strategy() if self._agent is None else self._agent._make_strategy()

    def _session(self) -> str | None:
        return None if self._agent is None else self._agent._session()
