"""Four known tool APIs, spoken over one engine."""
