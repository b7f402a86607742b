"""Use MCP servers as tools: connections, server processes, and keeping the tools up to date."""
