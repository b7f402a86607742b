"""Make one OpenTelemetry span per call, if OpenTelemetry is configured."""

import os
from contextlib import AbstractContextManager
from sys import modules
from typing import Any

from .active_call import ActiveCall
from .block import to_text
from .call import Outcome, Status
from .errors import ToolFailed
from .secrets.secret import redact_text

_SPANLESS = (Status.OK, Status.PENDING)
OTEL_API = "opentelemetry.trace"
VARIABLE: Any = "OTEL_PYTHON_TRACER_PROVIDER"
# The dict behind `os.environ` is read directly: `os.environ` encodes the name on each lookup.
variables: Any = getattr(os.environ, "_data", os.environ)
if variables is not os.environ:
    VARIABLE = os.environ.encodekey(VARIABLE)


class TracingProbe:
    """Reads the configured provider where the OpenTelemetry API keeps it.

    Reading it there costs nothing, while asking the API costs a quarter of a call. As long
    as the API is not fully imported, and with a version that keeps the provider elsewhere,
    this reports that there may be a provider, and the API is asked.
    """

    _TRACER_PROVIDER: Any = True

    def __init__(self) -> None:
        self.api: Any = self

    def look(self) -> Any:
        """The API, if it is fully imported."""
        api = modules.get(OTEL_API)
        # An API that another thread is still importing is not configured yet.
        if not hasattr(api, "get_tracer_provider") or not hasattr(api, "get_current_span"):
            return None
        self.api = api if hasattr(api, "_TRACER_PROVIDER") else self
        return api


probe = TracingProbe()


def is_tracing() -> bool:
    """Whether OpenTelemetry is configured, in code or by its environment variable.

    An application that traces has imported the API itself, so it is looked up and not
    imported. `Engine.run` repeats the first two checks, to save a function call.
    """
    if OTEL_API not in modules:
        return False
    if not (probe.api._TRACER_PROVIDER or VARIABLE in variables):
        return False
    api = probe.look()
    return api is not None and not isinstance(api.get_tracer_provider(), api.ProxyTracerProvider)


def open_span(active: ActiveCall) -> AbstractContextManager[Any]:
    """A span around one call, with the names of the GenAI conventions."""
    from opentelemetry.trace import get_tracer  # noqa: PLC0415 - loaded by the application

    attributes = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": active.call.tool,
        "gen_ai.tool.type": "function",
        "gen_ai.tool.call.id": active.call.provider_id or active.call.id,
        "wieldy.call.id": active.call.id,
        "gen_ai.agent.name": active.call.scope.agent,
        "gen_ai.conversation.id": active.call.scope.session,
        "wieldy.call.parent": active.call.scope.parent,
    }
    span: AbstractContextManager[Any] = get_tracer("wieldy").start_as_current_span(
        f"execute_tool {active.call.tool}",
        attributes={name: value for name, value in attributes.items() if value is not None},
        record_exception=False,
        set_status_on_exception=False,
    )
    return span


def close_span(span: Any, active: ActiveCall, outcome: Outcome, capture_content: bool) -> None:
    """Put the outcome on the span; arguments and results only if that is asked for."""
    from opentelemetry.trace import Status as SpanStatus  # noqa: PLC0415 - loaded by the application
    from opentelemetry.trace import StatusCode  # noqa: PLC0415 - the same

    span.set_attribute("wieldy.status", outcome.status.value)
    if outcome.status not in _SPANLESS:
        span.set_attribute("error.type", _error_type(outcome))
        span.set_status(SpanStatus(StatusCode.ERROR, str(outcome.error or outcome.status.value)))
    if capture_content:
        if "values" in vars(active):
            # Arguments that were not accepted may have secrets that were not found.
            arguments = redact_text(to_text(dict(active.arguments)), active.secrets)
            span.set_attribute("gen_ai.tool.call.arguments", arguments)
        span.set_attribute("gen_ai.tool.call.result", redact_text(outcome.text, active.secrets))


def _error_type(outcome: Outcome) -> str:
    error = outcome.error
    source: Any = error.original if isinstance(error, ToolFailed) else error
    return type(source).__qualname__ if source is not None else outcome.status.value
