"""A fluent agent over a toolbox and a model.

`Agent` is `BaseAgent` with the extensions that most programs want. A class of your own may
mix in others, such as `ChatSessionExtension`.
"""

from wieldy.core.limits.budget import Budget
from wieldy.core.run_errors import (
    NoAnswer,
    NotPending,
    RunBusy,
    RunEnded,
    RunInterrupted,
    RunNotFound,
    RunTaken,
    StateRefused,
)

from .agent import BaseAgent
from .default_agent import Agent
from .extensions.auto_func import AutoFuncExtension
from .extensions.chat_session import ChatSessionExtension
from .extensions.configure_prompt import ConfigurePromptExtension
from .extensions.key_waiter import KeyWaiterExtension
from .extensions.tools import ToolExtension
from .prices import NoPrice
from .runs.run_keeper import RunKeeper
from .served_agent import ServedAgent

__all__ = [
    "Agent",
    "AutoFuncExtension",
    "BaseAgent",
    "Budget",
    "ChatSessionExtension",
    "ConfigurePromptExtension",
    "KeyWaiterExtension",
    "NoAnswer",
    "NoPrice",
    "NotPending",
    "RunBusy",
    "RunEnded",
    "RunInterrupted",
    "RunKeeper",
    "RunNotFound",
    "RunTaken",
    "ServedAgent",
    "StateRefused",
    "ToolExtension",
]
