"""The model that Agently's settings for an OpenAI-compatible server describe."""

from collections.abc import Mapping
from typing import Any

from wieldy.agent.agent import BaseAgent
from wieldy.agent.model_choice import choose_model
from wieldy.models.model import Model

from .agently_response import AgentlyResponse, complete_meta
from .settings import REQUESTER, AgentlySettings, Configurable

_DEFAULT_MODEL = "gpt-4.1"
_CHAT_PATH = "/chat/completions"
_NOT_GIVEN: tuple[Any, ...] = (None, "", {})
# Settings that are refused, because ignoring them would send requests to the wrong place.
_NOT_TAKEN = ("proxy", "client_options", "path_mapping")


class ConfiguredAgent(Configurable, BaseAgent):
    """An agent or request whose model comes from its settings, unless one was given."""

    _response_type = AgentlyResponse
    settings: AgentlySettings

    def __init__(self, *args: Any, parent: AgentlySettings, **options: Any) -> None:
        super().__init__(*args, **options)
        self.settings = AgentlySettings(parent=parent)
        self._chosen: tuple[Any, Model] | None = None
        self.extension_handlers.append("broadcast_suffixes", complete_meta, event="done")

    @property
    def model(self) -> Model:
        """The model that the settings name, unless one was given."""
        if self._given_model[0] is not None:
            return super().model
        wanted = self.settings.get(REQUESTER) or {}
        if self._chosen is None or self._chosen[0] != wanted:
            self._chosen = (wanted, open_model(wanted))
        return self._chosen[1]

    def get_result(self) -> AgentlyResponse:
        """Make a request from what has been written, like `get_response`."""
        response = self.get_response()
        assert isinstance(response, AgentlyResponse)
        return response


def open_model(wanted: Mapping[str, Any]) -> Model:
    """A client of the server; `ValueError` for settings that it can't honour."""
    _check_settings(wanted)
    key, headers, body = _read_auth(wanted)
    given = {
        "headers": headers,
        "options": {
            **(wanted.get("options") or {}),
            **(wanted.get("request_options") or {}),
            **body,
        },
        **_read_timeouts(wanted.get("timeout")),
    }
    more = {each: value for each, value in given.items() if value not in _NOT_GIVEN}
    name = wanted.get("model") or _DEFAULT_MODEL
    return choose_model(f"openai:{name}", _read_address(wanted), key, **more)


def _check_settings(wanted: Mapping[str, Any]) -> None:
    kind = wanted.get("model_type") or "chat"
    if kind != "chat":
        raise ValueError(f"model_type is 'chat' here, not {kind!r}.")
    for name in _NOT_TAKEN:
        if wanted.get(name) not in _NOT_GIVEN:
            raise ValueError(
                f"The setting {name} of OpenAICompatible is not supported. Leave it out, or give "
                "the agent a model object: create_agent(model=…)."
            )


def _read_address(wanted: Mapping[str, Any]) -> str | None:
    whole = wanted.get("full_url")
    if not whole:
        return wanted.get("base_url")
    address = str(whole).rstrip("/")
    if not address.endswith(_CHAT_PATH):
        raise ValueError(f"full_url ends with {_CHAT_PATH}, not as {whole!r} does.")
    return address.removesuffix(_CHAT_PATH)


def _read_auth(wanted: Mapping[str, Any]) -> tuple[Any, dict[str, str], dict[str, Any]]:
    """The key, the headers, and what goes into the body."""
    auth = wanted.get("auth")
    headers = dict(wanted.get("headers") or {})
    key = wanted.get("api_key")
    if not isinstance(auth, Mapping):
        return auth or key, headers, {}
    headers.update(auth.get("headers") or {})
    return auth.get("api_key", key), headers, dict(auth.get("body") or {})


def _read_timeouts(timeout: Any) -> dict[str, Any]:
    if not isinstance(timeout, Mapping):
        return {"silence": timeout}
    return {"connect_timeout": timeout.get("connect"), "silence": timeout.get("read")}
