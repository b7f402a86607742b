"""Decide which strings are secret: by their type, by a schema, or by a credential's name."""

import base64
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum
from functools import lru_cache
from itertools import chain, islice, pairwise
from types import NoneType
from typing import Any, Protocol
from urllib.parse import parse_qsl, unquote, unquote_plus, urlsplit

from wieldy.core.arguments.argument_errors import item_schemas, mentions_secret, speaks_of_secret
from wieldy.core.schema.references import resolve_reference
from wieldy.core.schema.schema_graph import SchemaGraph

from .secret import is_secret

# Shorter text occurs by chance in too many other texts.
_SHORTEST = 8
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_CREDENTIALS = {
    "apikey",
    "authorization",
    "bearer",
    "credential",
    "passphrase",
    "passwd",
    "password",
    "pgpassword",
    "pwd",
    "secret",
    "token",
}
_KEYS = {"api", "access", "secret", "private", "auth", "signing"}
# A scheme and what follows it, as in `Authorization: Bearer abc`.
_SCHEME = re.compile(r"[A-Za-z][\w-]*\s+(\S+)")
_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://\S+")
# Database drivers accept any character in a password, up to the last `@`.
_LOOSE = re.compile(r"(?!https?:|wss?:)[A-Za-z0-9+.-]+://([^:/@]*):(\S+)@", re.I)
_TEXTS = (str, bytes, bytearray)
_FLAT = frozenset((str, int, float, bool, bytes, NoneType))
# `deps` are searched for each call: at most this many objects, and this many parts of each.
_MAX_THINGS, _MAX_PARTS = 500, 100
_MAX_PAIRS = 100_000


def is_credential(name: str) -> bool:
    """Whether a name means a credential, by the words in it."""
    words = [word.lower() for word in _WORDS.findall(name)]
    after = pairwise(words)
    return any(word.removesuffix("s") in _CREDENTIALS for word in words) or any(
        second == "key" and first in _KEYS for first, second in after
    )


def preset_secrets(presets: Any) -> list[str]:
    """The strings among hidden arguments that must not appear anywhere.

    These are marked secrets, values under a credential's name, and passwords in URLs. Other
    hidden values are configuration.
    """
    found: dict[str, None] = {}
    for text, marked, named in _find_leaves(presets, tells=is_credential):
        if marked or (named and len(text) >= _SHORTEST):
            found.update(dict.fromkeys((text, *_bare_tokens(text))))
        found.update(dict.fromkeys(_address_secrets(text)))
    return list(found)


def argument_secrets(arguments: Any) -> list[str]:
    """The strings that the arguments' own types mark as secret."""
    return [text for text, marked, _ in _find_leaves(arguments) if marked]


def held_secrets(deps: Any) -> list[str]:
    """The secrets in a call's `deps`: the nearest objects are searched, up to a limit.

    This is done for each call, so values that can't be or hold a secret are skipped.
    """
    found: list[str] = []
    near: list[tuple[Any, bool]] = [(deps, False)]
    seen: set[int] = set()
    # The list grows during the loop, by the parts of its objects.
    for here, inside in near:
        shape = _shape_of(here)
        if shape is _Shape.SECRET:
            found += argument_secrets(here)
        elif len(seen) < _MAX_THINGS and id(here) not in seen:
            seen.add(id(here))
            opaque = shape is _Shape.OTHER
            held = () if opaque and inside else islice(_unnamed_parts(here, shape), _MAX_PARTS)
            near += [(part, inside or opaque) for part in held if type(part) not in _FLAT]
    return found


class Described(Protocol):
    """A tool: its schema, and a memory for what depends on the tool alone."""

    @property
    def input_schema(self) -> Mapping[str, Any]:
        """The schema of its arguments."""

    def once(self, fact: str, read: "Callable[[Any], Any]") -> Any:
        """A fact that is computed when it is first asked for."""


def takes_secret(tool: Described) -> bool:
    """Whether the schema of a tool marks any argument, or a part of one, as secret."""
    known: bool = tool.once(
        "takes_secret", lambda tool: mentions_secret(tool.input_schema, tool.input_schema)
    )
    return known


def sent_secrets(arguments: Any, tool: Described) -> list[str]:
    """The strings in plain arguments at places that the tool's schema marks as secret."""
    if not takes_secret(tool):
        return []
    return [text for text, _ in _sent_secrets(arguments, tool.input_schema)]


def meant_secrets(arguments: Any, tool: Described) -> list[str]:
    """Those of them that are searched for in results: passwords, and strings that are not short.

    Documents mark much as `writeOnly` that is merely not sent back.
    """
    if not takes_secret(tool):
        return []
    sent = _sent_secrets(arguments, tool.input_schema)
    return [text for text, sure in sent if sure or len(text) >= _SHORTEST]


def _sent_secrets(arguments: Any, schema: Mapping[str, Any]) -> Iterator[tuple[str, bool]]:
    """Each such string, and whether the schema says that it is a password."""
    telling = SchemaGraph(schema).leading_to(speaks_of_secret)
    seen: set[tuple[int, int]] = set()
    rest: list[tuple[Any, Any]] = [(arguments, schema)]
    while rest:
        value, place = rest.pop()
        # Recursive types reach the same value in many ways.
        if id(place) not in telling or (id(value), id(place)) in seen:
            continue
        seen.add((id(value), id(place)))
        if len(seen) > _MAX_PAIRS:
            # The search takes too long, so all strings are treated as secret.
            yield from ((text, True) for text, _, _ in _find_leaves(arguments, marked=True))
            return
        password = place.get("format") == "password"
        if password or place.get("writeOnly") is True:
            yield from ((text, password) for text, _, _ in _find_leaves(value, marked=True))
        else:
            rest += _inner_places(value, place, schema)


def _inner_places(
    value: Any, schema: Mapping[str, Any], root: Mapping[str, Any]
) -> Iterator[tuple[Any, Any]]:
    """The parts of a value with their schemas, one level down."""
    if "$ref" in schema:
        yield value, resolve_reference(schema, root)
    for choice in ("anyOf", "oneOf", "allOf"):
        yield from ((value, each) for each in schema.get(choice, ()))
    yield from ((value, schema.get(choice)) for choice in ("then", "else", "if"))
    if isinstance(value, Mapping):
        named = schema.get("properties", {})
        others = schema.get("additionalProperties")
        yield from ((inner, named.get(name, others)) for name, inner in value.items())
    elif isinstance(value, list | tuple):
        yield from zip(value, item_schemas(schema, len(value)), strict=True)


def _find_leaves(
    value: Any,
    marked: bool = False,
    tells: Callable[[str], bool] = lambda name: False,
) -> Iterator[tuple[str, bool, bool]]:
    """Every text inside a value, whether it is marked secret, and whether its name says so.

    An object that is not a record may refer to anything: its own fields are searched, but not
    other such objects in them.
    """
    seen: set[tuple[int, bool, bool]] = set()
    rest: list[tuple[Any, bool, bool, bool]] = [(value, marked, False, False)]
    while rest:
        here, marked, named, inside = rest.pop()
        if is_secret(here):
            here, marked = here.get_secret_value(), True
        if isinstance(here, _TEXTS):
            yield from ((text, marked, named) for text in _text_forms(here))
        elif isinstance(here, int | float) and not isinstance(here, bool):
            # A number counts only if it is marked as secret.
            if marked:
                yield str(here), True, named
        elif here is not None and (id(here), marked, named) not in seen:
            seen.add((id(here), marked, named))
            opaque = _shape_of(here) is _Shape.OTHER
            if not (opaque and inside):
                for name, part in _named_parts(here):
                    rest.append((part, marked, named or tells(name), inside or opaque))


def _text_forms(value: str | bytes | bytearray) -> Iterable[str]:
    """A text itself; or bytes, both decoded and as their `repr`."""
    if isinstance(value, str):
        return (value,)
    shown = (repr(bytes(value))[2:-1], base64.b64encode(value).decode())
    try:
        return (value.decode(), *shown)
    except UnicodeDecodeError:
        return shown


def _named_parts(value: Any) -> Iterable[tuple[str, Any]]:
    """The parts of a value, each with its name if it has one."""
    match _shape_of(value):
        case _Shape.MAPPING:
            return ((name if isinstance(name, str) else "", part) for name, part in value.items())
        case _Shape.LIST:
            return (("", part) for part in value)
        case _Shape.CLASS:
            return ()
        case _Shape.ADDRESS:
            return (("", str(value)),)
    kind: Any = type(value)
    held = getattr(value, "__dict__", None)
    own = held if isinstance(held, dict) else {}
    extra = getattr(value, "__pydantic_extra__", None) if _is_model(kind) else None
    return chain(
        ((name, getattr(value, name, None)) for name in _declared_fields(kind) if name not in own),
        own.items(),
        (extra or {}).items(),
    )


def _unnamed_parts(value: Any, shape: "_Shape") -> Iterable[Any]:
    """The parts of a value without their names, which is quicker."""
    if shape is _Shape.MAPPING:
        # Other mappings may load their values from elsewhere.
        return value.values() if isinstance(value, dict) else ()
    own = getattr(value, "__dict__", None) if shape is _Shape.OTHER else None
    return own.values() if isinstance(own, dict) else (part for _, part in _named_parts(value))


class _Shape(Enum):
    """How the values of a class are searched."""

    SECRET = "secret"
    MAPPING = "mapping"
    LIST = "list"
    CLASS = "class"
    ADDRESS = "address"
    RECORD = "record"
    OTHER = "other"


def _shape_of(value: Any) -> _Shape:
    # `__class__` is not used, because a proxy reports the class of its target.
    kind: Any = type(value)
    return _find_shape(kind)


@lru_cache(maxsize=1000)
def _find_shape(kind: Any) -> _Shape:
    if hasattr(kind, "get_secret_value"):
        return _Shape.SECRET
    if issubclass(kind, Mapping):
        return _Shape.MAPPING
    if issubclass(kind, list | tuple | set | frozenset) and not hasattr(kind, "_fields"):
        return _Shape.LIST
    if issubclass(kind, type):
        return _Shape.CLASS
    if hasattr(kind, "unicode_string"):
        # The value is one of pydantic's URLs.
        return _Shape.ADDRESS
    return _Shape.RECORD if _declared_fields(kind) or _is_model(kind) else _Shape.OTHER


def _is_model(kind: Any) -> bool:
    return hasattr(kind, "__pydantic_fields__")


@lru_cache(maxsize=1000)
def _declared_fields(kind: Any) -> tuple[str, ...]:
    """The fields of a dataclass, an `attrs` class or a named tuple, which may have slots."""
    attributes = (each.name for each in getattr(kind, "__attrs_attrs__", ()))
    fields = getattr(kind, "__dataclass_fields__", ())
    return (*getattr(kind, "_fields", ()), *fields, *attributes)


def _bare_tokens(text: str) -> Iterator[str]:
    """The token after the scheme in a header, and the password in a pair."""
    parts = _SCHEME.fullmatch(text)
    if parts is None or len(parts[1]) < _SHORTEST:
        return
    yield parts[1]
    try:
        pair = base64.b64decode(parts[1], validate=True).decode()
    except ValueError:
        return
    password = pair.partition(":")[2]
    yield from (each for each in (pair, password) if len(each) >= _SHORTEST and password)


def _address_secrets(text: str) -> Iterator[str]:
    """The passwords in the URLs of a text, as they are written and as they are sent.

    The user of an http URL without a password is a token. What is short is covered in the URL, and
    not wherever it occurs.
    """
    for found in _ADDRESS.finditer(text):
        for user, password in _url_passwords(found[0]):
            yield f"{user}:{password}@"
            forms = (password, unquote(password), unquote_plus(password))
            if len(password) >= _SHORTEST:
                yield from forms
        for user in _lone_users(found[0]):
            yield f"//{user}@"
            if len(user) >= _SHORTEST:
                yield from (user, unquote(user))
        for name, value in _query_values(found[0]):
            if is_credential(name) and len(value) >= _SHORTEST:
                yield value


def _url_passwords(address: str) -> Iterator[tuple[str, str]]:
    """The user and the password, in each way that a URL can be read."""
    try:
        authority = urlsplit(address).netloc
    except ValueError:
        authority = address.partition("://")[2]
    # A database URL may name several hosts.
    for part in {authority, *authority.split(",")}:
        user, colon, password = part.rpartition("@")[0].partition(":")
        if colon and password:
            yield user, password
    loose = _LOOSE.match(address)
    if loose is not None:
        yield loose[1], loose[2]


def _lone_users(address: str) -> Iterator[str]:
    """The user of an http URL that has no password."""
    try:
        parts = urlsplit(address)
    except ValueError:
        return
    user, _, password = parts.netloc.rpartition("@")[0].partition(":")
    if parts.scheme in ("http", "https") and user and not password:
        yield user


def _query_values(address: str) -> list[tuple[str, str]]:
    """The named values of a URL, in its query or its fragment."""
    _, _, query = address.partition("?")
    query, _, fragment = query.partition("#")
    return [pair for each in (query, fragment) for pair in parse_qsl(each)]
