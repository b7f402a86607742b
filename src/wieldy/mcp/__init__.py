"""MCP both ways, over the official SDK, and the lock on what was trusted."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .oauth import OAuth
    from .patience import Patience
    from .running import serve
    from .servers import Server
    from .serving import BoxServer, current_request, server

__all__ = ["BoxServer", "OAuth", "Patience", "Server", "current_request", "serve", "server"]

# Each name is loaded from its module when it is first asked for: the SDK behind it is heavy.
_HOMES = {
    "BoxServer": "serving",
    "OAuth": "oauth",
    "Patience": "patience",
    "Server": "servers",
    "current_request": "serving",
    "serve": "running",
    "server": "serving",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(import_module(f".{_HOMES[name]}", __name__), name)
    except ModuleNotFoundError as error:
        raise ImportError(f'{error}. MCP needs an extra: pip install "wieldy[mcp]"') from error
