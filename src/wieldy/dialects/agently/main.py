"""Agently's main object: the settings and tools that its agents share."""

from wieldy.agent.prompt import Prompt
from wieldy.models.model import Model

from .agently_agent import AgentlyAgent
from .agently_request import AgentlyRequest
from .settings import Configurable, default_settings
from .tool_manager import AgentlyToolManager


class AgentlyMain(Configurable):
    """The class of `Agently`: settings and tools, and the agents that are made with them.

    Args:
        AgentType: The class of its agents, such as one with `ChatSessionExtension` mixed in.

    Example:
        `AgentlyMain(type("Chatting", (ChatSessionExtension, Agently.AgentType), {}))`
    """

    def __init__(self, AgentType: type[AgentlyAgent] = AgentlyAgent) -> None:
        self.settings = default_settings()
        self.tool = AgentlyToolManager()
        self.AgentType = AgentType

    def create_agent(
        self, name: str | None = None, *, model: str | Model | None = None
    ) -> AgentlyAgent:
        """An agent with these settings and tools.

        Args:
            name: Its name; only tools that are tagged with it, or given to it, are its own.
            model: A model other than the one of the settings, by name or as an object.
        """
        return self.AgentType(self, name, model)

    def create_request(
        self, name: str | None = None, *, model: str | Model | None = None
    ) -> AgentlyRequest:
        """A request without an agent: it has these settings, and no tools."""
        return AgentlyRequest(self.settings, self.tool.toolbox, name=name, model=model)

    def create_prompt(self, name: str = "agently_prompt") -> Prompt:
        """A new, empty prompt."""
        return Prompt()
