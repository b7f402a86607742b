"""What comes from outside: recognised, scanned, and remembered for its session."""
