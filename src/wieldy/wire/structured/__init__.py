"""Structured output while it streams: JSON in a model's text, told event by event."""

from .json_event import Event
from .structured_stream import StructuredError, StructuredStream

__all__ = ["Event", "StructuredError", "StructuredStream"]
