"""Read structured output while it streams: JSON in a model's text, as events."""

from .json_event import Event
from .structured_stream import StructuredError, StructuredStream

__all__ = ["Event", "StructuredError", "StructuredStream"]
