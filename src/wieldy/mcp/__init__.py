"""MCP: our tools as a server for MCP clients."""

try:
    import mcp as _sdk  # noqa: F401
except ImportError as error:
    raise ImportError('MCP needs an extra: pip install "wieldy[mcp]"') from error

from .running import serve
from .serving import BoxServer, current_request, server

__all__ = ["BoxServer", "current_request", "serve", "server"]
