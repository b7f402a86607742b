"""Settings under the names that Agently's users know."""

import os
import re
from typing import Any, Self

from wieldy.agent.settings import Settings

REQUESTER = "plugins.ModelRequester.OpenAICompatible"
_SHORT_NAMES = dict.fromkeys(("OpenAICompatible", "OpenAI", "OAIClient"), REQUESTER)
_DEBUG = ("runtime.show_model_logs", "runtime.show_tool_logs", "runtime.show_trigger_flow_logs")
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
                self.set(each, bool(value))
            return self
        return self.set(_SHORT_NAMES.get(key, key), value)


def _fill_from_environment(value: Any, raise_empty: bool) -> Any:
    if isinstance(value, dict):
        return {key: _fill_from_environment(each, raise_empty) for key, each in value.items()}
    if isinstance(value, list):
        return [_fill_from_environment(each, raise_empty) for each in value]
    if not isinstance(value, str):
        return value

    def find(name: re.Match[str]) -> str:
        found = os.environ.get(name[1])
        if found is None and raise_empty:
            raise ValueError(f"The environment has no {name[1]}.")
        return found or ""

    return _ENVIRONMENT.sub(find, value)
