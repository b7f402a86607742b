"""What a callable takes and returns, as JSON Schema."""
