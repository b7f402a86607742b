"""The requests that would be sent to a model if the agent were started now."""

from wieldy.models.model import ModelRequest

from .prompt_text import make_turns
from .request import Request
from .strategies.judge import Judge


def preview_requests(request: Request) -> list[ModelRequest]:
    """The first request of a run, and the question about a tool that comes before it."""
    request.list_tools("preview")
    options = dict(request.prompt.get("options") or {})
    strategy = request.strategy
    turns = make_turns(request.prompt.values(), request.form, strategy.system_text())
    schema = None if strategy.has_rounds else request.form.schema
    shown = [ModelRequest(turns, request.offered_tools, options, schema)]
    if isinstance(strategy, Judge) and len(request.view):
        return [strategy.make_question(request.prompt, options), *shown]
    return shown
