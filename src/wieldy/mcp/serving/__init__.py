"""Serve a toolbox as an MCP server, over stdio and HTTP."""
