"""Outgoing connections: which addresses are near, and HTTP that uses only checked ones."""
