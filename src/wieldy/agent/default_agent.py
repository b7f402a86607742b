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

    `BaseAgent` says which arguments it takes.

    Example:
        `Agent("openai:gpt-5").input("Who wrote Emma?").start()`
    """
