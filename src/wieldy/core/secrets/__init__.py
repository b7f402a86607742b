"""Values that must not be seen: what counts as one, and how it is covered."""
