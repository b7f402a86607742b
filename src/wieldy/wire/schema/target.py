"""The parts of JSON Schema that each provider accepts, as data.

The sources are OpenAI's guide to structured outputs, Anthropic's page on structured outputs
and the transformation in its Python SDK, and the field descriptions of `Schema` and
`FunctionDeclaration` in the Gemini API.
"""

import hashlib
import re
from dataclasses import dataclass
from typing import get_args

from wieldy.core.choices import ProviderFormat
from wieldy.core.names import find_near_names, provider_name

_PLAIN = frozenset({"type", "description", "enum", "properties", "required", "items", "anyOf"})
_NUMBERS = frozenset(
    {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}
)  # fmt: skip
_ARRAYS = frozenset({"minItems", "maxItems"})
_STRINGS = frozenset({"minLength", "maxLength", "pattern"})
_FORMATS = frozenset(
    {"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"}
)


@dataclass(frozen=True, slots=True)
class Target:
    """The schema rules of one provider.

    `keywords` are the constraints that it enforces. `closed` means that every object lists
    its properties and allows no others, `all_required` that all of them are required,
    `inline` that there are no references, and `flagged` that null is allowed by a flag and
    that types are in capitals.
    """

    title: str
    keywords: frozenset[str]
    formats: frozenset[str] = _FORMATS
    strict: bool = False
    closed: bool = False
    all_required: bool = False
    inline: bool = False
    flagged: bool = False
    finite: bool = False
    simple_patterns: bool = False
    most_min_items: int | None = None
    key: re.Pattern[str] | None = None


@dataclass(frozen=True, slots=True)
class Loose:
    """The rules of a provider that accepts almost any schema, with conditions on its top."""

    title: str
    plain_top: bool = True
    names_dialect: bool = False
    needs_items: bool = False
    key: re.Pattern[str] | None = None


_MAX_NAME = 64
_HASH_LENGTH = 8
_ANTHROPIC_KEY = re.compile(r"[a-zA-Z0-9_.-]{1,64}\Z")
_GEMINI_KEY = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]{0,63}\Z")

OPENAI_STRICT = Target(
    "OpenAI strict",
    _PLAIN | _NUMBERS | _ARRAYS | {"pattern", "format"},
    strict=True,
    closed=True,
    all_required=True,
    simple_patterns=True,
)
ANTHROPIC_STRICT = Target(
    "Anthropic strict",
    _PLAIN | {"const", "minItems", "pattern", "format"},
    formats=_FORMATS | {"uri"},
    strict=True,
    closed=True,
    inline=True,
    simple_patterns=True,
    most_min_items=1,
    key=_ANTHROPIC_KEY,
)
GEMINI = Target(
    "Gemini",
    _PLAIN | _ARRAYS | {"minimum", "maximum", "format", "prefixItems", "additionalProperties"},
    formats=_FORMATS | {"uri", "byte", "float", "double", "int32", "int64"},
    finite=True,
)
GEMINI_OPENAPI = Target(
    "Gemini's OpenAPI subset",
    _PLAIN | _ARRAYS | _STRINGS | {"minimum", "maximum", "format", "minProperties"}
    | {"maxProperties"},
    formats=frozenset({"date-time", "float", "double", "int32", "int64"}),
    closed=True,
    inline=True,
    flagged=True,
    key=_GEMINI_KEY,
)  # fmt: skip
OPENAI = Loose("OpenAI", needs_items=True)
ANTHROPIC = Loose("Anthropic", key=_ANTHROPIC_KEY)
MCP = Loose("MCP", plain_top=False, names_dialect=True)

PROVIDERS: tuple[ProviderFormat, ...] = get_args(ProviderFormat)
_TARGETS: dict[tuple[str, bool], Target | Loose] = {
    ("openai", False): OPENAI,
    ("openai", True): OPENAI_STRICT,
    ("openai-responses", False): OPENAI,
    ("openai-responses", True): OPENAI_STRICT,
    ("anthropic", False): ANTHROPIC,
    ("anthropic", True): ANTHROPIC_STRICT,
    ("gemini", False): GEMINI,
    ("gemini-openapi", False): GEMINI_OPENAPI,
    ("mcp", False): MCP,
}


def target_of(provider: str, strict: bool = False) -> Target | Loose:
    """The rules of a provider; `ValueError` for an unknown one. `strict` needs a strict mode."""
    found = _TARGETS.get((provider, strict)) or _TARGETS.get((provider, False))
    if found is None:
        hint = ", ".join(find_near_names(provider, PROVIDERS) or PROVIDERS)
        raise ValueError(f"There is no provider {provider!r}. Did you mean: {hint}?")
    return found


def gemini_name(name: str) -> str:
    """A tool's name for Gemini, which has to start with a letter or an underscore.

    A name that is changed gets a hash, so that it can't be the name of another tool.
    """
    legal = provider_name(name)
    if legal[0].isalpha() or legal[0] == "_":
        return legal
    digest = hashlib.sha256(legal.encode()).hexdigest()[:_HASH_LENGTH]
    return f"_{legal[: _MAX_NAME - _HASH_LENGTH - 2]}_{digest}"
