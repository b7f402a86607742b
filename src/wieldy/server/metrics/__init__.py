"""What a server counts and measures, at `/metrics` and in the store."""
