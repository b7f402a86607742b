"""Where a tool's function runs."""
