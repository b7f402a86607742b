"""What a callable takes and gives, as JSON Schema."""
