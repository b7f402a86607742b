"""Settings under the names that Agently's users know."""

import os
import re
import tomllib
from pathlib import Path
from typing import Any, Literal, Self, get_args

from wieldy.agent.settings import Settings
from wieldy.core.bounded_json import bound_reader, parse_json

DocumentKind = Literal["json_file", "yaml_file", "toml_file", "json", "yaml", "toml"]
REQUESTER = "plugins.ModelRequester.OpenAICompatible"
_SHORT_NAMES = dict.fromkeys(("OpenAICompatible", "OpenAI", "OAIClient"), REQUESTER)
_DEBUG = ("show_model_logs", "show_tool_logs", "show_trigger_flow_logs")
_ENVIRONMENT = re.compile(r"\$\{\s*ENV\.([^}]+?)\s*\}")


class AgentlySettings(Settings):
    """Settings by dotted key, and by the short names of a few."""

    def set_settings(
        self, key: str, value: Any, *, auto_load_env: bool = False, raise_empty: bool = False
    ) -> Self:
        """Set a key; `auto_load_env` fills in each `${ENV.NAME}` from the environment."""
        if auto_load_env:
            value = _fill_from_environment(value, raise_empty)
        if key == "debug":
            for each in _DEBUG:
                self.set(f"runtime.{each}", bool(value))
            return self
        return self.set(_SHORT_NAMES.get(key, key), value)

    def load(
        self,
        data_type: DocumentKind,
        value: str,
        *,
        auto_load_env: bool = False,
        raise_empty: bool = False,
    ) -> Self:
        """Set the settings from a document.

        Args:
            data_type: "json", "yaml" or "toml" for text, and with "_file" for a file's path.
            value: The text, or the path.
            auto_load_env: Whether each `${ENV.NAME}` is filled in from the environment.
            raise_empty: Whether a variable that the environment lacks is a `KeyError`; without
                it the placeholder stays.

        Raises:
            TypeError: the kind is unknown, or the document is not a mapping with entries.
            ValueError: the document is malformed.
        """
        if data_type not in get_args(DocumentKind):
            known = ", ".join(map(repr, get_args(DocumentKind)))
            raise TypeError(f"Settings are loaded from one of {known}, not {data_type!r}.")
        kind = data_type.removesuffix("_file")
        text = Path(value).read_text("utf-8") if data_type.endswith("_file") else value
        found = _read_document(kind, text)
        if not found or not isinstance(found, dict):
            raise TypeError(f"Settings are a mapping of names to values, not {found!r:.200}")
        for key, each in found.items():
            self.set_settings(str(key), each, auto_load_env=auto_load_env, raise_empty=raise_empty)
        return self


class Configurable:
    """An object with settings that programs can change."""

    settings: AgentlySettings

    def set_settings(
        self, key: str, value: Any, *, auto_load_env: bool = False, raise_empty: bool = False
    ) -> Self:
        """Change a setting, such as the model under "OpenAICompatible".

        `auto_load_env` fills in each `${ENV.NAME}` from the environment.
        """
        self.settings.set_settings(key, value, auto_load_env=auto_load_env, raise_empty=raise_empty)
        return self

    def load_settings(
        self,
        data_type: DocumentKind,
        value: str,
        *,
        auto_load_env: bool = False,
        raise_empty: bool = False,
    ) -> Self:
        """Change settings from a document; the arguments are those of `AgentlySettings.load`."""
        self.settings.load(data_type, value, auto_load_env=auto_load_env, raise_empty=raise_empty)
        return self


def default_settings() -> AgentlySettings:
    """The settings before a program has changed any."""
    return AgentlySettings(
        {
            "runtime": dict.fromkeys(_DEBUG, False),
            "response": {"streaming_parse_path_style": "dot"},
        }
    )


def _read_document(kind: str, text: str) -> Any:
    if kind == "toml":
        return bound_reader(tomllib.loads, text)
    if kind == "json":
        return parse_json(text)
    # The YAML library is an extra, so it is loaded only when YAML is read.
    from wieldy.agent.prompt_document import parse_yaml  # noqa: PLC0415

    return parse_yaml(text)


def _fill_from_environment(value: Any, raise_empty: bool) -> Any:
    if isinstance(value, dict):
        return {key: _fill_from_environment(each, raise_empty) for key, each in value.items()}
    if isinstance(value, list):
        return [_fill_from_environment(each, raise_empty) for each in value]
    if not isinstance(value, str):
        return value

    def find(name: re.Match[str]) -> str:
        if raise_empty and name[1] not in os.environ:
            raise KeyError(f"The environment has no {name[1]}.")
        return os.environ.get(name[1], name[0])

    return _ENVIRONMENT.sub(find, value)
