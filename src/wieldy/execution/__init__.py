"""Places in which a tool's function runs."""
