"""Find a model by its name, such as `openai:gpt-5`."""

import os
from collections.abc import Mapping
from dataclasses import fields
from importlib.util import find_spec
from typing import Any

from wieldy.core.names import find_near_names
from wieldy.core.secrets.secret import Secret, reveal_secret

from .anthropic import ANTHROPIC
from .api import Api
from .gemini import GEMINI
from .model import Model
from .model_errors import UnknownModel
from .openai import CHAT
from .openai_responses import RESPONSES
from .remote_model import RemoteModel
from .settings import ModelSettings, check_model_address, same_server

_APIS = {api.name: api for api in (CHAT, RESPONSES, ANTHROPIC, GEMINI)}
NUMBER_VARIABLES = {
    "connect_timeout": ("WIELDY_MODEL_CONNECT_TIMEOUT", float),
    "silence": ("WIELDY_MODEL_SILENCE", float),
    "timeout": ("WIELDY_MODEL_TIMEOUT", float),
    "retries": ("WIELDY_MODEL_RETRIES", int),
    "max_answer": ("WIELDY_MODEL_MAX_ANSWER", int),
    "connections": ("WIELDY_MODEL_CONNECTIONS", int),
}


def find_model(
    model: str | Model,
    *,
    base_url: str | None = None,
    api_key: str | Secret | None = None,
    **settings: Any,
) -> Model:
    """The model of this name; a model object is returned as it is.

    Args:
        model: `provider:model`. The providers are `openai` (chat completions, of OpenAI or of
            any other server that speaks them), `openai-responses`, `anthropic` and `gemini`.
        base_url: Where the server is, if it is not the provider's own.
        api_key: The key; by default that of the environment (OPENAI_API_KEY, …), which is not
            used with a `base_url` that is given here.
        settings: Any of `headers`, `options`, `context_window`, `connect_timeout`, `silence`,
            `timeout`, `retries`, `max_answer` and `connections`.

    Raises:
        UnknownModel: if there is no such provider, or the name has none.
        ImportError: if the provider's SDK is not installed.

    Example:
        `find_model("openai:llama3.2", base_url="http://localhost:11434/v1")`
    """
    if not isinstance(model, str):
        given = [name for name, value in settings.items() if value is not None]
        if base_url or api_key or given:
            raise TypeError("Settings are for a model that is named; this one is an object already")
        return model
    provider, _, name = model.partition(":")
    api = _find_api(model, provider, name)
    _check_installed(api)
    given_settings = {"base_url": base_url, "api_key": api_key, **settings}
    return RemoteModel(api, name, _read_settings(api, given_settings))


def _find_api(model: str, provider: str, name: str) -> Api:
    known = ", ".join(_APIS)
    if provider in _APIS and name.strip():
        return _APIS[provider]
    if ":" not in model:
        reason = f"it names no provider. Write it as provider:model; the providers are {known}."
    elif provider in _APIS:
        reason = f"it names no model. Write it as {provider}:model."
    else:
        meant = " or ".join(map(repr, find_near_names(provider, _APIS)))
        hint = f"Did you mean {meant}?" if meant else f"The providers are {known}."
        reason = f"there is no provider {provider!r}. {hint}"
        reason += ' A server that speaks OpenAI\'s chat API is "openai:…" with its base_url.'
    raise UnknownModel(model, reason)


def _check_installed(api: Api) -> None:
    """Raise now if the SDK is missing, because it is loaded only with the first request."""
    try:
        found = find_spec(api.sdk)
    except ModuleNotFoundError:
        found = None
    if found is None:
        raise ImportError(
            f'Models of {api.name} need the package {api.sdk}: pip install "wieldy[{api.extra}]"'
        )


def _read_settings(api: Api, given: Mapping[str, Any]) -> ModelSettings:
    """The given settings; those that are missing come from the environment.

    A key from the environment belongs to the address in the environment, or to the provider's
    own address. It is never sent to another server that the program names; such a server needs
    its own key.
    """
    known = [each.name for each in fields(ModelSettings)]
    for name in given:
        if name not in known:
            hint = " or ".join(map(repr, find_near_names(name, known))) or ", ".join(known)
            raise TypeError(f"A model has no setting {name!r}. Did you mean {hint}?")
    chosen = {name: value for name, value in given.items() if value is not None}
    expected = _first_variable(api.address_variables) or api.address
    chosen["base_url"] = chosen.get("base_url") or expected
    check_model_address(chosen["base_url"])
    key = reveal_secret(chosen.pop("api_key", None)) or ""
    if not key and any(same_server(chosen["base_url"], own) for own in (expected, api.address)):
        key = _first_variable(api.key_variables)
    return ModelSettings(**{**_read_numbers(), **chosen, "api_key": _as_secret(key)})


def _read_numbers() -> dict[str, float]:
    found: dict[str, float] = {}
    for name, (variable, kind) in NUMBER_VARIABLES.items():
        text = os.environ.get(variable)
        if not text:
            continue
        try:
            found[name] = kind(text)
        except ValueError:
            raise ValueError(f"{variable} is a number, not {text!r}") from None
    return found


def _first_variable(names: tuple[str, ...]) -> str:
    return next((found for name in names if (found := os.environ.get(name, "").strip())), "")


def _as_secret(key: str) -> Secret | None:
    return Secret(key.strip()) if key.strip() else None
