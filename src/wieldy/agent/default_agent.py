"""The agent that most programs want."""

from .agent import BaseAgent
from .extensions.auto_func import AutoFuncExtension
from .extensions.configure_prompt import ConfigurePromptExtension
from .extensions.key_waiter import KeyWaiterExtension
from .extensions.tools import ToolExtension


class Agent(
    ToolExtension, KeyWaiterExtension, AutoFuncExtension, ConfigurePromptExtension, BaseAgent
):
    """An agent with tools, keys to wait for, functions by the model, and prompts in documents.

    Args:
        model: A name such as "openai:gpt-5", or a model object.
        base_url: Where the model is, if not where its provider has it.
        api_key: The key; without it that of the provider's environment variable.
        name: The agent's name; tools are tagged with it, and calls made in it.
        toolbox: The tools; without it the agent has a toolbox of its own.
        tool_strategy: "judge", "native" or "xml".
        max_rounds: How many rounds with tools "native" and "xml" may take.
        store: Where calls and chat sessions are kept, such as "sqlite:///wieldy.db".

    Example:
        `Agent("openai:gpt-5").input("Who wrote Emma?").start()`
    """
