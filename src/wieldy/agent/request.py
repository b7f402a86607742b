"""One request of an agent, with its prompt, model and tools as they were at its start."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from wieldy.core.call import Around, Outcome
from wieldy.core.discovery.session_listing import run_listing
from wieldy.core.limits.budget import Budget
from wieldy.models.model import NO_OPTIONS, Model
from wieldy.toolbox import Toolbox
from wieldy.view import View

from .extension_handlers import ExtensionHandlers
from .nested_data import PathStyle
from .output.output_form import OutputForm
from .prices import Prices
from .prompt import Prompt
from .settings import Settings
from .strategies.listed_tools import ListedTools
from .strategies.strategy import Strategy
from .subagents.nesting import Nesting

# Gets the receipt of a waiting call, and returns its outcome, or the receipt if nobody decides.
Decider = Callable[[Outcome], Awaitable[Outcome]]
PATH_STYLE = "response.streaming_parse_path_style"


@dataclass(frozen=True, slots=True)
class Request:
    """Everything that a run needs. Later changes to the agent don't affect it.

    The request has its own copy of the prompt, which handlers may change until the model is asked.
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
    max_result: int | None = None
    # Whose the calls are in which the run began; a resumed run may be inside none.
    around: tuple[Around, ...] = ()

    @property
    def call_session(self) -> str | None:
        """The session in which calls are made."""
        return self.session if self.nesting is None else self.nesting.session

    @property
    def options(self) -> Mapping[str, Any]:
        """The options for the model's provider, according to the current prompt."""
        given = self.prompt.get("options")
        return dict(given) if given else NO_OPTIONS

    async def for_model(self, outcome: Outcome) -> Outcome:
        """An outcome as the agent's model reads it."""
        return await self.box.results.for_model(outcome, self.max_result)

    def list_tools(self, run: str) -> View | None:
        """Offer what this session, or this run, is shown, where the toolbox has search tools."""
        if not self.box.has_session_lists:
            return None
        return self.strategy.list_for(self.session or run_listing(run))

    @property
    def offered_tools(self) -> "View | ListedTools | None":
        """The tools that the next request offers; a list that grows is taken as it is now."""
        offered = self.strategy.offered
        if offered is None or not self.box.has_session_lists:
            return offered
        return ListedTools(offered)

    @property
    def form(self) -> OutputForm:
        """The form of the answer, according to the current prompt."""
        return OutputForm(self.prompt.get("output"), self.prompt.get("output_format"))

    @property
    def path_style(self) -> PathStyle:
        """The notation for paths in the instant stream."""
        style = self.settings.get(PATH_STYLE, "dot")
        if style not in ("dot", "slash"):
            raise ValueError(f"{PATH_STYLE} is 'dot' or 'slash', not {style!r}.")
        return "slash" if style == "slash" else "dot"
