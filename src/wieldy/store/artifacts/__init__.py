"""Documents and large results, with every version they have had."""
