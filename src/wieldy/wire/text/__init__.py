"""Read tool calls from a model's text, and write calls and results as text."""

from .call_parser import TextCallParser, TextEvent

__all__ = ["TextCallParser", "TextEvent"]
