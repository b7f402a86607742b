"""Log what a server sends wrong in one line each, where the SDK would add a traceback."""

import logging
from contextvars import ContextVar

import anyio
from pydantic import ValidationError

# The server with which the present code exchanges messages.
current_server: ContextVar[str | None] = ContextVar("wieldy_current_server", default=None)
# The loggers of the SDK's parts that read messages.
_LOGGERS = (
    "client",
    "mcp.client.sse",
    "mcp.client.streamable_http",
    "mcp.shared.jsonrpc_dispatcher",
)
# What a message of a server can raise, or one that comes when nobody waits for it any more.
_MISTAKES = (ValidationError, UnicodeDecodeError, anyio.BrokenResourceError)
_LONGEST = 300


class _OneLine(logging.Filter):
    """Takes the traceback away from what is said of a server that we are connected to."""

    def filter(self, record: logging.LogRecord) -> bool:
        server = current_server.get()
        error = record.exc_info[1] if record.exc_info else None
        if server is not None and isinstance(error, _MISTAKES):
            said = f"{record.getMessage()} ({_describe(error)})"
            record.msg, record.args = "%s: %s", (server, " ".join(said.split())[:_LONGEST])
            record.exc_info = record.exc_text = None
        return True


def _describe(error: BaseException) -> str:
    """What is wrong, without what was sent."""
    if not isinstance(error, ValidationError):
        return type(error).__name__
    found = error.errors(include_url=False, include_context=False, include_input=False)
    return "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in found[:3])


def log_in_one_line() -> None:
    """From now on say such things in one line; a second call changes nothing."""
    for name in _LOGGERS:
        logging.getLogger(name).addFilter(_FILTER)


_FILTER = _OneLine()
