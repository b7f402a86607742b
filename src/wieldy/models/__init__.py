"""Model clients behind one small protocol: a request in, a stream of events out."""

from .model import Answers, Model, ModelEvent, ModelRequest, Reply, Said, Turn

__all__ = ["Answers", "Model", "ModelEvent", "ModelRequest", "Reply", "Said", "Turn"]
