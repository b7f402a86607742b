"""Results from outside: recognised, scanned, and remembered for their session."""
