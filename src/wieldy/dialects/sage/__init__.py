"""SAGE's tool registry: MCP-style tool objects, registered and called by name."""

from .registry import MCPRegistry
from .remote_adapter import RemoteMCPAdapter

__all__ = ["MCPRegistry", "RemoteMCPAdapter"]
