"""Select the calls of a rule by trait, tag, group, source, trust and session, besides names."""

import fnmatch
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any, TypedDict

from wieldy.core.names import find_near_names, listed_names
from wieldy.core.tool import Tool


class CriteriaOptions(TypedDict, total=False):
    """The fields of `Criteria`, each as a keyword."""

    read_only: bool | None
    idempotent: bool | None
    destructive: bool | None
    open_world: bool | None
    trusted: bool | None
    tags: Iterable[str] | str | None
    group: str | None
    source: str | None
    untrusted: bool | None


class RuleOptions(CriteriaOptions, total=False):
    """The options of a rule besides names and arguments: which tools, and on whose behalf.

    `elicitation` is for rules that ask: whether an MCP client may put the question to its user.
    """

    agent: str | None
    session: str | None
    caller: str | None
    elicitation: bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Criteria:
    """The properties that a rule requires of a tool. A field that is None requires nothing.

    Attributes:
        read_only: Whether the tool is declared read-only.
        idempotent: Whether it is declared idempotent.
        destructive: Whether it counts as destructive, declared or not.
        open_world: Whether it counts as open-world, declared or not.
        trusted: Whether its source is trusted. An MCP server or an OpenAPI document is trusted
            only if it was added so.
        tags: Tags of which the tool has at least one.
        group: Its group, or a pattern such as `db-*`.
        source: Its source, or a pattern such as `mcp:*`.
        untrusted: Whether a result from outside is in the session of the call; this is no fact
            about the tool.
    """

    read_only: bool | None = None
    idempotent: bool | None = None
    destructive: bool | None = None
    open_world: bool | None = None
    trusted: bool | None = None
    tags: tuple[str, ...] | None = None
    group: str | None = None
    source: str | None = None
    untrusted: bool | None = None

    def __post_init__(self) -> None:
        for name in (*_FLAGS, "untrusted"):
            value = getattr(self, name)
            if value is not None and not isinstance(value, bool):
                raise ValueError(f"{name} is True or False, not {value!r}")
        for name in _PATTERNS:
            value = getattr(self, name)
            if value is not None and not (isinstance(value, str) and value):
                raise ValueError(f"{name} is a name or a pattern, not {value!r}")
        tags = self.tags
        if tags is not None and not (tags and all(isinstance(tag, str) and tag for tag in tags)):
            raise ValueError(f"tags are one or more names, not {tags!r}")

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> "Criteria":
        """The criteria among the options of a rule."""
        said = {name: options[name] for name in NAMES if options.get(name) is not None}
        if not said:
            return NO_CRITERIA
        if "tags" in said:
            try:
                said["tags"] = tuple(listed_names(said["tags"]))
            except TypeError:
                raise ValueError(f"tags are one or more names, not {said['tags']!r}") from None
        return cls(**said)

    @classmethod
    def from_dict(cls, said: Any) -> "Criteria":
        """The criteria from JSON data; `ValueError` says what is wrong with the data."""
        if not isinstance(said, Mapping):
            raise ValueError("the criteria must be an object")
        for name in said:
            if name not in NAMES:
                hint = find_near_names(str(name), NAMES)
                raise ValueError(f"there is no criterion {name!r}; {_suggest_names(hint)}")
        if not isinstance(said.get("tags", []), list):
            raise ValueError("tags must be a list of texts")
        return cls.of(said)

    def to_dict(self) -> dict[str, Any]:
        """The criteria that are set, as JSON data."""
        said = {name: getattr(self, name) for name in NAMES}
        found = {name: value for name, value in said.items() if value is not None}
        if self.tags is not None:
            found["tags"] = list(self.tags)
        return found

    def hold_for(self, tool: Tool) -> bool:
        """Whether the tool meets every criterion that is set."""
        return (
            all(wanted in (None, _read_trait(tool, name)) for name, wanted in self._flag_items())
            and (self.tags is None or not set(self.tags).isdisjoint(tool.tags))
            and _matches_pattern(self.group, tool.group)
            and _matches_pattern(self.source, tool.source)
        )

    def _flag_items(self) -> Iterable[tuple[str, bool | None]]:
        return ((name, getattr(self, name)) for name in _FLAGS)

    def __str__(self) -> str:
        return ", ".join(f"{name}={value!r}" for name, value in self.to_dict().items())


NAMES = tuple(field.name for field in fields(Criteria))
_FLAGS = ("read_only", "idempotent", "destructive", "open_world", "trusted")
_PATTERNS = ("group", "source")
# A tool that does not declare one of these traits gets a default, which these properties give.
_COUNTED = {"destructive": "is_destructive", "open_world": "is_open_world"}
NO_CRITERIA = Criteria()


def _read_trait(tool: Tool, name: str) -> bool:
    return bool(getattr(tool, _COUNTED.get(name, name)))


def _matches_pattern(pattern: str | None, text: str) -> bool:
    return pattern is None or re.match(fnmatch.translate(pattern), text) is not None


def _suggest_names(hint: Iterable[str]) -> str:
    near = list(hint)
    return f"did you mean {near[0]!r}?" if near else f"there are {', '.join(NAMES)}"
