"""Model clients behind one small protocol: a request in, a stream of events out."""

from .connections import close_connections
from .find import find_model
from .model import Answers, Model, ModelEvent, ModelRequest, Reply, Said, Turn
from .settings import ModelSettings

__all__ = [
    "Answers",
    "Model",
    "ModelEvent",
    "ModelRequest",
    "ModelSettings",
    "Reply",
    "Said",
    "Turn",
    "close_connections",
    "find_model",
]
