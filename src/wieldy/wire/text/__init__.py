"""Tool calls that a model writes into its text, and what it is told in text."""

from .call_parser import TextCallParser, TextEvent

__all__ = ["TextCallParser", "TextEvent"]
