"""MCP servers as tools: connections, processes, and the tools kept in step."""
