"""Read the environment variables of models, which docs/models.md lists."""

import os
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from wieldy.core.names import find_near_names
from wieldy.core.secrets.secret import Secret, reveal_secret

from .api import Api
from .settings import ModelSettings, check_model_address, same_server

NUMBER_VARIABLES = {
    "connect_timeout": ("WIELDY_MODEL_CONNECT_TIMEOUT", float),
    "silence": ("WIELDY_MODEL_SILENCE", float),
    "timeout": ("WIELDY_MODEL_TIMEOUT", float),
    "retries": ("WIELDY_MODEL_RETRIES", int),
    "max_answer": ("WIELDY_MODEL_MAX_ANSWER", int),
    "connections": ("WIELDY_MODEL_CONNECTIONS", int),
}


def read_settings(api: Api, given: Mapping[str, Any]) -> ModelSettings:
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
