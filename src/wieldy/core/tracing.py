"""One OpenTelemetry span per call, where OpenTelemetry is configured."""

import os
from contextlib import AbstractContextManager
from sys import modules
from typing import Any

from .block import to_text
from .call import Outcome, Status
from .errors import ToolFailed
from .run import Run
from .secrets.secret import redact_text

_SPANLESS = (Status.OK, Status.PENDING)
OTEL_API = "opentelemetry.trace"
VARIABLE: Any = "OTEL_PYTHON_TRACER_PROVIDER"
# The dict behind `os.environ`, which itself decodes a name each time one is looked up.
variables: Any = getattr(os.environ, "_data", os.environ)
if variables is not os.environ:
    VARIABLE = os.environ.encodekey(VARIABLE)


class TracingProbe:
    """Where the API keeps the provider that it was configured with.

    Reading it there costs a call nothing; asking the API costs a quarter of a call. Until
    the API was seen whole, and with a version of it that keeps the provider elsewhere,
    this says that there may be one, and the API is asked.
    """

    _TRACER_PROVIDER: Any = True

    def __init__(self) -> None:
        self.api: Any = self

    def look(self) -> Any:
        """The API, where it is loaded as a whole."""
        api = modules.get(OTEL_API)
        # One that another thread is still loading has nothing configured yet.
        if not hasattr(api, "get_tracer_provider") or not hasattr(api, "get_current_span"):
            return None
        self.api = api if hasattr(api, "_TRACER_PROVIDER") else self
        return api


probe = TracingProbe()


def is_tracing() -> bool:
    """Whether somebody has configured OpenTelemetry, in code or by its variable.

    An application that traces has loaded the API itself, so it is looked for and
    not imported. `Engine.run` asks the first two questions without a frame.
    """
    if OTEL_API not in modules:
        return False
    if not (probe.api._TRACER_PROVIDER or VARIABLE in variables):
        return False
    api = probe.look()
    return api is not None and not isinstance(api.get_tracer_provider(), api.ProxyTracerProvider)


def open_span(run: Run) -> AbstractContextManager[Any]:
    """A span around one call, under the names that GenAI tracing has agreed on."""
    from opentelemetry.trace import get_tracer  # noqa: PLC0415 - loaded by the application

    attributes = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": run.call.tool,
        "gen_ai.tool.type": "function",
        "gen_ai.tool.call.id": run.call.provider_id or run.call.id,
        "wieldy.call.id": run.call.id,
        "gen_ai.agent.name": run.call.scope.agent,
        "gen_ai.conversation.id": run.call.scope.session,
        "wieldy.call.parent": run.call.scope.parent,
    }
    span: AbstractContextManager[Any] = get_tracer("wieldy").start_as_current_span(
        f"execute_tool {run.call.tool}",
        attributes={name: value for name, value in attributes.items() if value is not None},
        record_exception=False,
        set_status_on_exception=False,
    )
    return span


def close_span(span: Any, run: Run, outcome: Outcome, capture_content: bool) -> None:
    """Put how the call ended on its span; arguments and results only when asked for."""
    from opentelemetry.trace import Status as SpanStatus  # noqa: PLC0415 - loaded by the application
    from opentelemetry.trace import StatusCode  # noqa: PLC0415 - the same

    span.set_attribute("wieldy.status", outcome.status.value)
    if outcome.status not in _SPANLESS:
        span.set_attribute("error.type", _error_type(outcome))
        span.set_status(SpanStatus(StatusCode.ERROR, str(outcome.error or outcome.status.value)))
    if capture_content:
        if "values" in vars(run):
            # What was not accepted can't be read, or has secrets that nobody has found yet.
            arguments = redact_text(to_text(dict(run.arguments)), run.secrets)
            span.set_attribute("gen_ai.tool.call.arguments", arguments)
        span.set_attribute("gen_ai.tool.call.result", redact_text(outcome.text, run.secrets))


def _error_type(outcome: Outcome) -> str:
    error = outcome.error
    source: Any = error.original if isinstance(error, ToolFailed) else error
    return type(source).__qualname__ if source is not None else outcome.status.value
