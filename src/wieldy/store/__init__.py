"""The store: calls, the decisions on them, runs and artifacts, on SQLite or PostgreSQL."""
