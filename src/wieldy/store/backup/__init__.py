"""Copy a store into one file, and back into an empty store of either kind."""
