"""One request of an agent: what it says, to which model, with which tools, as of its start."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from wieldy.core.call import Outcome
from wieldy.core.limits.budget import Budget
from wieldy.models.model import Model
from wieldy.toolbox import Toolbox
from wieldy.view import View

from .extension_handlers import ExtensionHandlers
from .nested_data import PathStyle
from .output.output_form import OutputForm
from .prices import Prices
from .prompt import Prompt
from .settings import Settings
from .strategies.strategy import Strategy
from .subagents.nesting import Nesting

# Given the receipt of a call that waits: the outcome, or the receipt if nobody decides now.
Decider = Callable[[Outcome], Awaitable[Outcome]]
PATH_STYLE = "response.streaming_parse_path_style"


@dataclass(frozen=True, slots=True)
class Request:
    """Everything that a run needs. What an agent is told later does not change it.

    The prompt is this request's own: handlers may change it until the model is asked.
    """

    agent: str
    model: Model
    box: Toolbox
    view: View
    prompt: Prompt
    settings: Settings
    handlers: ExtensionHandlers
    strategy: Strategy
    max_rounds: int = 5
    session: str | None = None
    decide: Decider | None = None
    deps: Any = None
    budget: Budget | None = None
    prices: Prices | None = None
    nesting: Nesting | None = None

    @property
    def call_session(self) -> str | None:
        """The session in which calls are made."""
        return self.session if self.nesting is None else self.nesting.session

    @property
    def form(self) -> OutputForm:
        """What the answer should be, as the prompt says now."""
        return OutputForm(self.prompt.get("output"), self.prompt.get("output_format"))

    @property
    def path_style(self) -> PathStyle:
        """How paths of the instant stream are written."""
        style = self.settings.get(PATH_STYLE, "dot")
        if style not in ("dot", "slash"):
            raise ValueError(f"{PATH_STYLE} is 'dot' or 'slash', not {style!r}.")
        return "slash" if style == "slash" else "dot"
