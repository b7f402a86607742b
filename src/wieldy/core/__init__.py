"""The engine: what a tool, a call and an outcome are, and the one path between them."""
