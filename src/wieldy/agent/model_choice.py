"""The model that an agent was given, by name or as an object."""

from importlib import import_module
from typing import Any

from wieldy.models.model import Model


def choose_model(
    model: str | Model | None, base_url: str | None = None, api_key: Any = None, **settings: Any
) -> Model:
    """A model object; `ValueError` if none was given."""
    if model is None:
        raise ValueError(
            'The agent has no model. Make it with Agent(model="openai:gpt-5"), or another '
            "provider's: anthropic:…, gemini:…"
        )
    if not isinstance(model, str):
        return model
    # The clients are loaded by whoever names one, and by nobody else.
    find_model: Any = import_module("wieldy.models.find").find_model
    found: Model = find_model(model, base_url=base_url, api_key=api_key, **settings)
    return found
