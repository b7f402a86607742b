"""MCP in both directions, with the official SDK: use servers as tools, serve a toolbox."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .client.oauth import OAuth
    from .client.patience import Patience
    from .client.server_requests import pass_to_client
    from .client.servers import Server
    from .serving.running import serve
    from .serving.server import BoxServer, current_request, server
    from .serving.tasks.task_settings import Tasks

__all__ = [
    "BoxServer",
    "OAuth",
    "Patience",
    "Server",
    "Tasks",
    "current_request",
    "pass_to_client",
    "serve",
    "server",
]

# The SDK is slow to import, so each name is loaded from its module on first use.
_HOMES = {
    "BoxServer": "serving.server",
    "OAuth": "client.oauth",
    "Patience": "client.patience",
    "Server": "client.servers",
    "Tasks": "serving.tasks.task_settings",
    "current_request": "serving.server",
    "pass_to_client": "client.server_requests",
    "serve": "serving.running",
    "server": "serving.server",
}


# A type checker that saw this function would believe in any name.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        try:
            return getattr(import_module(f".{_HOMES[name]}", __name__), name)
        except ModuleNotFoundError as error:
            raise ImportError(f'{error}. MCP needs an extra: pip install "wieldy[mcp]"') from error


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
