"""The arguments of an operation: its parameters and its body as one flat schema."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from wieldy.core.schema.references import find_part, used_definitions

from .document import Node
from .operation import Operation
from .schema import Schemas, refusal

Schema = dict[str, Any]

_ODD = re.compile(r"[^a-zA-Z0-9_.-]+")
TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+\Z")
_STYLES = {"path": "simple", "header": "simple", "query": "form", "cookie": "form"}
# Headers that the client sets itself; a document can't change them.
_OURS = frozenset({
    "accept", "authorization", "connection", "content-length", "content-type", "cookie", "host",
    "proxy-authorization", "te", "trailer", "transfer-encoding", "upgrade",
})  # fmt: skip
_MEDIA = ("application/x-www-form-urlencoded", "multipart/form-data", "text/plain")
_SIMPLE = frozenset({"type", "properties", "required", "description", "additionalProperties"})
_BINARY = "Text, or bytes as data:application/octet-stream;base64,…"


class OperationParameter:
    """One value in the path, the query, a header or a cookie, and how it is written there."""

    __slots__ = ("argument", "explode", "media", "name", "place", "required", "reserved", "style")

    def __init__(self, node: Node) -> None:
        self.name: str = node.get("name")
        self.place: str = node.get("in")
        self.argument = self.name
        self.required = self.place == "path" or node.get("required") is True
        style = node.get("style")
        self.style = style if isinstance(style, str) else _STYLES[self.place]
        explode = node.get("explode")
        self.explode = explode if isinstance(explode, bool) else self.style == "form"
        self.reserved = node.get("allowReserved") is True and self.place == "query"
        content = node.get("content")
        self.media: str | None = next(iter(content), None) if isinstance(content, Mapping) else None


class Body:
    """The body: its media type, and the arguments that it is made of.

    `fields` maps arguments to the names that the API knows; without any, the whole
    body is the one argument `argument`. `files` are the fields of a form that are files.
    """

    __slots__ = ("argument", "encoding", "fields", "files", "media", "required")

    def __init__(self, media: str, required: bool, encoding: Mapping[str, Any]) -> None:
        self.media = media
        self.required = required
        self.encoding = encoding
        self.argument = "body"
        self.fields: dict[str, str] | None = None
        self.files: set[str] = set()


class Layout:
    """The arguments of an operation, and where each of them goes.

    If the document's schemas are too expensive, `refused` says so, and the schema has only the
    names.
    """

    __slots__ = ("body", "parameters", "refused", "schema")

    def __init__(self, operation: Operation) -> None:
        schemas = Schemas(operation.document, "readOnly")
        nodes = [node for node in operation.parameters if _can_be_sent(node)]
        self.parameters = [OperationParameter(node) for node in nodes]
        self.body: Body | None = None
        properties: Schema = {}
        _name_apart(self.parameters)
        whole = _read_body(operation, schemas)
        if whole is not None:
            self.body, described = whole
            lifted = _lift_body(self.body, described, schemas)
            names = {parameter.argument for parameter in self.parameters}
            if lifted is None or names & lifted[0].keys():
                lifted = self._nest_body(described)
            properties, required = lifted
        else:
            required = []
        own = zip(self.parameters, nodes, strict=True)
        shown = {each.argument: _describe_parameter(schemas, node) for each, node in own}
        needed = [each.argument for each in self.parameters if each.required]
        required = [*needed, *required]
        self.schema = _object_schema({**shown, **properties}, required, schemas.definitions)
        self.refused = refusal(self.schema)
        if self.refused is not None:
            self.schema = _object_schema(
                {name: {} for name in self.schema["properties"]}, required, {}
            )

    def _nest_body(self, described: Schema) -> tuple[Schema, list[str]]:
        assert self.body is not None
        self.body.fields = None
        for parameter in self.parameters:
            if parameter.argument == self.body.argument:
                parameter.argument = f"{parameter.argument}_{parameter.place}"
        return {self.body.argument: described}, [self.body.argument] * self.body.required


def named_arguments(operation: Operation) -> list[str]:
    """The names of parameters and of the body's fields, read from the document as they stand."""
    names = [node.get("name") for node in operation.parameters if _can_be_sent(node)]
    body = operation.body
    content = None if body is None else body.get("content")
    media = choose_media(content) if isinstance(content, Mapping) else None
    if body is None or media is None:
        return names
    schema = operation.document.follow(body.child("content").child(media).child("schema"))
    fields = None if schema is None else schema.get("properties")
    return [*names, *(fields if isinstance(fields, Mapping) else ())]


def choose_media(content: Mapping[str, Any]) -> str | None:
    """The most expressive media type of a body: JSON first, then forms, then text."""
    by_plain = {plain_media(media): media for media in reversed([*content])}
    json_like = [media for plain, media in by_plain.items() if is_json(plain)]
    if json_like:
        return by_plain.get("application/json", json_like[-1])
    known = (by_plain[media] for media in _MEDIA if media in by_plain)
    return next(known, next(iter(content), None))


def plain_media(media: str) -> str:
    """A media type without its parameters, in lower case."""
    return media.partition(";")[0].strip().lower()


def is_json(media: str) -> bool:
    """Whether a plain media type is JSON, or anything at all."""
    return media in ("application/json", "text/json", "*/*", "application/*") or media.endswith(
        "+json"
    )


def _can_be_sent(node: Node) -> bool:
    name: str = node.get("name")
    if node.get("in") != "header":
        return True
    return bool(TOKEN.match(name)) and name.lower() not in _OURS


def _name_apart(parameters: list[OperationParameter]) -> None:
    """Give each parameter a separate argument; a name in two places gets its place as suffix."""
    plain = {id(each): _legal_name(each.name) for each in parameters}
    counts = Counter(plain.values())
    taken: set[str] = set()
    for each in parameters:
        name = plain[id(each)]
        each.argument = _free_name(name if counts[name] == 1 else f"{name}_{each.place}", taken)


def _legal_name(name: str) -> str:
    return _ODD.sub("_", name).strip("_")[:64] or "argument"


def _free_name(name: str, taken: set[str]) -> str:
    number, free = 2, name
    while free in taken:
        free, number = f"{name[:60]}_{number}", number + 1
    taken.add(free)
    return free


def _read_body(operation: Operation, schemas: Schemas) -> tuple[Body, Schema] | None:
    node = operation.body
    content = node.get("content") if node is not None else None
    if node is None or not isinstance(content, Mapping):
        return None
    media = choose_media({str(key): value for key, value in content.items()})
    if media is None:
        return None
    given = node.child("content").child(media)
    encoding = given.get("encoding")
    required = node.get("required") is True
    body = Body(media, required, encoding if isinstance(encoding, Mapping) else {})
    plain = plain_media(media)
    if is_json(plain) or plain in _MEDIA[:2]:
        described = schemas.read(given.child("schema"))
        return body, _with_text(node, {} if described is True else described or {})
    return body, _with_text(node, {"type": "string"} if plain[:5] == "text/" else _binary_schema())


def _with_text(node: Node, schema: Schema) -> Schema:
    text = node.get("description")
    return {"description": text, **schema} if isinstance(text, str) and text else schema


def _binary_schema() -> Schema:
    return {"type": "string", "description": _BINARY}


def _lift_body(body: Body, schema: Schema, schemas: Schemas) -> tuple[Schema, list[str]] | None:
    """The properties of an object body as arguments, if that is equivalent."""
    merged = _merge_objects(schema, schemas.definitions, 0)
    if merged is None or not merged[0]:
        return None
    properties, required = merged
    if plain_media(body.media) in _MEDIA[:2]:
        shown_as = {name: _field_schema(each, schemas) for name, each in properties.items()}
        body.files = {name for name, each in properties.items() if shown_as[name] is not each}
        properties = shown_as
    if required and not body.required:
        return None
    taken: set[str] = set()
    names = {name: _free_name(_legal_name(name), taken) for name in properties}
    body.fields = {argument: name for name, argument in names.items()}
    shown = {names[name]: each for name, each in properties.items()}
    return shown, [names[name] for name in required if name in names]


def _merge_objects(schema: Any, definitions: Schema, depth: int) -> tuple[Schema, list[str]] | None:
    """The properties and required names of an object schema; None if it has more than those."""
    if not isinstance(schema, Mapping) or depth > 10:
        return None
    if "$ref" in schema:
        target = find_part(schema["$ref"], {"$defs": definitions})
        return _merge_objects(target, definitions, depth + 1)
    parts = schema.get("allOf", [])
    plain = schema.keys() - {"allOf", "examples", "default", "deprecated"} <= _SIMPLE
    if not plain or schema.get("type", "object") != "object":
        return None
    if schema.get("additionalProperties", False) is not False:
        return None
    if parts and "additionalProperties" in schema:
        return None
    properties: Schema = dict(schema.get("properties", {}))
    required: list[str] = list(schema.get("required", ()))
    for part in parts:
        inner = _merge_objects(part, definitions, depth + 1)
        if inner is None or inner[0].keys() & properties.keys():
            return None
        properties.update(inner[0])
        required += inner[1]
    return properties, list(dict.fromkeys(required))


def _field_schema(schema: Any, schemas: Schemas) -> Any:
    """The schema of a form field for a model: a file is text, or bytes in a `data:` URL."""
    target = schema
    if isinstance(schema, Mapping) and "$ref" in schema:
        target = find_part(schema["$ref"], {"$defs": schemas.definitions}) or schema
    if not isinstance(target, Mapping):
        return schema
    if is_binary(target):
        said = target.get("description")
        return {"type": "string", "description": f"{said} {_BINARY}" if said else _BINARY}
    items = target.get("items")
    if isinstance(items, Mapping) and is_binary(items):
        return {**target, "items": _binary_schema()}
    return schema


def is_binary(schema: Mapping[str, Any]) -> bool:
    """Whether a form field of this schema is a file."""
    octets = schema.get("contentMediaType") and not schema.get("contentEncoding")
    return schema.get("format") == "binary" or bool(octets)


def _describe_parameter(schemas: Schemas, node: Node) -> Any:
    content = node.get("content")
    holder = node
    if isinstance(content, Mapping) and content:
        holder = node.child("content").child(next(iter(content)))
    schema = schemas.read(holder.child("schema"))
    schema = {} if isinstance(schema, bool) else schema
    text = node.get("description")
    if isinstance(text, str) and text:
        schema = {**schema, "description": text[:1000]}
    return schema


def _object_schema(properties: Schema, required: Iterable[str], definitions: Schema) -> Schema:
    schema: Schema = {"type": "object", "properties": properties, "additionalProperties": False}
    needed = list(dict.fromkeys(required))
    if needed:
        schema["required"] = needed
    # A body that has been flattened no longer refers to its own definition.
    used = {name for _, name in used_definitions({**schema, "$defs": definitions})}
    if used:
        schema["$defs"] = {name: each for name, each in definitions.items() if name in used}
    return schema
