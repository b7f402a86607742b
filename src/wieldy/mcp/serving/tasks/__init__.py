"""Calls as tasks, which a client polls and which survive the server: MCP's tasks extension."""
