"""Answer a caller that calls a tool which it may never run as if there were no such tool."""

from wieldy.core.call import Outcome, Scope
from wieldy.core.errors import CallDenied, InvalidArguments, ToolNotFound
from wieldy.core.limits.call_limits import TooManyCalls
from wieldy.core.names import find_near_names

from .offer import Offer

# Each of them says that there is a tool, or names others that are like it.
_TELLING = (CallDenied, InvalidArguments, ToolNotFound, TooManyCalls)


async def hide_denied_tool(offer: Offer, outcome: Outcome, scope: Scope) -> Outcome:
    """The outcome of a call as its caller may know it. What was recorded stays as it is.

    Without tokens nobody is another caller, and everybody may know why a call was refused.
    """
    if scope.caller is None or not isinstance(outcome.error, _TELLING):
        return outcome
    names = [tool.name for tool in await offer.callable_tools(scope, loaded_only=False)]
    name = outcome.call.tool
    if name in names:
        return outcome
    error = ToolNotFound(name, find_near_names(name, names))
    return Outcome(outcome.call, outcome.status, error=error)
