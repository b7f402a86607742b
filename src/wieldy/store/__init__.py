"""What is kept: calls, the decisions on them, and artifacts, on SQLite or PostgreSQL."""
