"""The model that an agent was given, by name or as an object."""

from typing import Any

from wieldy.models.model import Model


def choose_model(model: str | Model | None, base_url: str | None, api_key: Any) -> Model:
    """A model object; `ValueError` if none was given."""
    if model is None:
        raise ValueError(
            'The agent has no model. Make it with Agent(model="openai:gpt-5"), or another '
            "provider's: anthropic:…, gemini:…"
        )
    if isinstance(model, str):
        raise ValueError(f"A model by name is not there yet: {model!r}. Pass a model object.")
    return model
