"""Read `mcpServers` configurations of Claude Desktop, Cursor and VS Code."""

import os
import re
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from wieldy.core.arguments.loose_json import parse_loose_json
from wieldy.core.errors import InvalidSource
from wieldy.core.secrets.credential import is_credential
from wieldy.core.secrets.secret import secret_forms

from .server_source import TRANSPORTS, Address, Command, Source

# ${NAME}, ${NAME:-default} and ${env:NAME}. Other forms in braces are left unchanged.
_VARIABLE = re.compile(r"\$\{(?P<kind>[A-Za-z]+:)?(?P<name>\w+)(?P<default>:-(?P<text>[^}]*))?\}")
# A shorter value that is no credential may be in any text by chance.
LEAST_COVERED = 8


def read_file(path: Path) -> Mapping[str, Any]:
    """The configuration in a file, which may contain comments."""
    try:
        found = parse_loose_json(path.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError) as error:
        raise InvalidSource(str(path), f"it can't be read: {error}") from None
    if not isinstance(found, dict):
        raise InvalidSource(str(path), 'it holds no object with "mcpServers"')
    return found


def read_entries(
    configuration: Mapping[str, Any], where: str
) -> dict[str, Callable[[], Source | None]]:
    """The servers by name. Each entry is read on use, so that a bad one does not affect others."""
    listed = _listed_servers(configuration)
    if listed is None:
        if "command" in configuration or "url" in configuration:
            return {"": lambda: _read_entry("the server", configuration)}
        raise InvalidSource(where, 'there is no "mcpServers" in it')
    entries: dict[str, Callable[[], Source | None]] = {}
    for name, entry in listed.items():
        entries[str(name)] = partial(_read_entry, str(name), entry)
    if not entries:
        raise InvalidSource(where, "it names no server")
    return entries


def _listed_servers(configuration: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The part that lists the servers, under either key, or the whole configuration."""
    inner = configuration.get("mcp", configuration)
    for part in (configuration, inner if isinstance(inner, Mapping) else {}):
        for key in ("mcpServers", "servers"):
            if isinstance(part.get(key), Mapping):
                found: Mapping[str, Any] = part[key]
                return found
    bare = configuration and all(
        isinstance(entry, Mapping) and ("command" in entry or "url" in entry)
        for entry in configuration.values()
    )
    return configuration if bare else None


def _read_entry(name: str, entry: Any) -> Source | None:
    """One server; None if it is disabled."""
    if not isinstance(entry, Mapping):
        raise InvalidSource(name, "its entry is no object")
    if entry.get("disabled") is True or entry.get("enabled") is False:
        return None
    filled: dict[str, str] = {}
    given = {key: entry[key] for key in entry if key in _KNOWN}
    plain: Any = expand_variables(name, given, filled)
    url = plain.get("url") or plain.get("serverUrl") or plain.get("httpUrl")
    if url is not None:
        _expect_type(name, "url", url, str)
        headers = _text_values(name, "headers", plain)
        return Address(url, _transport_name(name, plain), headers, filled=filled)
    command = plain.get("command")
    if not isinstance(command, str) or not command:
        raise InvalidSource(name, 'its entry has neither a "command" nor a "url"')
    arguments = plain.get("args") or []
    _expect_type(name, "args", arguments, list)
    cwd = plain.get("cwd")
    _expect_type(name, "cwd", cwd, str | None)
    env = {**_read_env_file(name, plain.get("envFile")), **_text_values(name, "env", plain)}
    return Command([command, *map(str, arguments)], env, cwd, filled)


_KNOWN = frozenset(
    ("type", "transport", "command", "args", "env", "envFile", "cwd", "url", "serverUrl", "httpUrl",
     "headers")
)  # fmt: skip


def _transport_name(name: str, entry: Mapping[str, Any]) -> str | None:
    given = entry.get("type") or entry.get("transport")
    if given is None:
        return "http" if entry.get("httpUrl") else None
    found = TRANSPORTS.get(str(given).lower())
    if found is None:
        known = ", ".join(sorted(set(TRANSPORTS.values())))
        raise InvalidSource(name, f"a URL is reached by one of {known}, not by {given!r}")
    return found


def _text_values(name: str, key: str, entry: Mapping[str, Any]) -> dict[str, str]:
    found = entry.get(key) or {}
    _expect_type(name, key, found, dict)
    return {str(each): str(value) for each, value in found.items() if value is not None}


_KINDS: dict[Any, str] = {
    str: "a string",
    str | None: "a string",
    list: "a list",
    dict: "an object",
}


def _expect_type(name: str, key: str, value: Any, kind: Any) -> None:
    if not isinstance(value, kind):
        # The value itself may be a secret, so only its type is shown.
        given = type(value).__name__
        raise InvalidSource(name, f"its {key!r} must be {_KINDS[kind]}, not {given}")


def expand_variables(
    name: str, value: Any, filled: dict[str, str] | None = None, place: str = ""
) -> Any:
    """The value with every variable in its texts replaced.

    Args:
        name: The server, for an error.
        value: Texts, in lists and mappings.
        filled: Gets what has been filled in and is to be shown as it is written: all that is long
            or a credential, by its name or by its place.
        place: The key of the value.
    """
    if isinstance(value, str):
        return _VARIABLE.sub(lambda found: _value_of(name, found, filled, place), value)
    if isinstance(value, Mapping):
        return {k: expand_variables(name, each, filled, str(k)) for k, each in value.items()}
    if isinstance(value, list):
        return [expand_variables(name, each, filled, place) for each in value]
    return value


def _value_of(name: str, found: re.Match[str], filled: dict[str, str] | None, place: str) -> str:
    kind, variable, default = found["kind"], found["name"], found["text"]
    if kind is None and variable == "userHome":
        return str(Path.home())
    if kind not in (None, "env:"):
        raise InvalidSource(
            name,
            f"{found[0]} would ask a person for the value, which nobody does here. "
            "Set an environment variable and write ${env:NAME}",
        )
    value = os.environ.get(variable)
    # As in a shell, the default also replaces a variable that is empty.
    if not value and default is not None:
        return default
    if value is None:
        raise InvalidSource(name, f"the environment variable {variable} is not set")
    if filled is not None and (
        len(value) >= LEAST_COVERED or is_credential(variable) or is_credential(place)
    ):
        filled[value] = f"${{{variable}}}"
    return value


def show_filled(text: str, filled: Mapping[str, str]) -> str:
    """A text in which what `${NAME}` has filled in stands as `${NAME}` again."""
    for value in sorted(filled, key=len, reverse=True):
        # What comes from a file often has a line end, and is used without it.
        for each in dict.fromkeys((value, value.strip())):
            for form in secret_forms(each):
                text = text.replace(form, filled[value])
    return text


def _read_env_file(name: str, path: Any) -> dict[str, str]:
    if path is None:
        return {}
    try:
        lines = Path(path).expanduser().read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError, TypeError) as error:
        raise InvalidSource(name, f"its envFile can't be read: {error}") from None
    pairs = (line.strip().removeprefix("export ").partition("=") for line in lines)
    return {
        key.strip(): value.strip().strip("'\"")
        for key, mark, value in pairs
        if mark and not key.startswith("#")
    }
