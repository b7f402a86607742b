"""Four other tool APIs, implemented on the same engine."""
