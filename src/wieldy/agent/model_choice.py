"""Choose the model of an agent, which was given by name or as an object."""

from typing import Any

from wieldy.models.find import find_model
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
    return find_model(model, base_url=base_url, api_key=api_key, **settings)
