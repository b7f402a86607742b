"""What is kept: calls and the decisions on them, on SQLite or PostgreSQL."""
