"""Between models' words and calls: pure functions, no I/O."""
