"""MCP both ways, over the official SDK: servers as tools, and a toolbox as a server."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .client.oauth import OAuth
    from .client.patience import Patience
    from .client.servers import Server
    from .serving.running import serve
    from .serving.server import BoxServer, current_request, server

__all__ = ["BoxServer", "OAuth", "Patience", "Server", "current_request", "serve", "server"]

# Each name is loaded from its module when it is first asked for: the SDK behind it is heavy.
_HOMES = {
    "BoxServer": "serving.server",
    "OAuth": "client.oauth",
    "Patience": "client.patience",
    "Server": "client.servers",
    "current_request": "serving.server",
    "serve": "serving.running",
    "server": "serving.server",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(import_module(f".{_HOMES[name]}", __name__), name)
    except ModuleNotFoundError as error:
        raise ImportError(f'{error}. MCP needs an extra: pip install "wieldy[mcp]"') from error
