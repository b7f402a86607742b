"""Callers who come with a token of an OAuth issuer."""
