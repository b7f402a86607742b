"""Convert between the messages of models and calls, with pure functions that do no I/O."""
