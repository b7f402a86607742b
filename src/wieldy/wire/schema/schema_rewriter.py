"""Rewrite a schema for a target that supports only part of JSON Schema."""

from collections.abc import Mapping
from typing import Any

from wieldy.core.schema.references import last_name, resolve_reference, write_reference

from .keywords import Keywords, allow_null, note_default, schema_in_words, with_note
from .merging import Schema, distinct, flatten_union, fold_schema, join_schemas
from .schema_change import Lowered, SchemaChange
from .schema_facts import (
    ANNOTATIONS,
    JSON_TEXT,
    SCALARS,
    SILENT,
    Accepted,
    accepts_type,
    are_exclusive,
    argument_name,
    find_references,
    is_open,
    properties_of,
    required_of,
    takes_anything,
    types_of,
)
from .target import Target

_MAX_DEPTH = 60
_MAX_NODES = 5000
_MAX_FOLDS = 20_000
_UNROLLED = 2


class Walk:
    """One walk through one schema for one target."""

    def __init__(self, root: Mapping[str, Any], target: Target) -> None:
        self.root = root
        self.target = target
        self.changes: list[SchemaChange] = []
        self.keywords = Keywords(target, self.changed)
        self.names: dict[str, str] = {}
        self.current: str | None = None
        self.nodes = 0
        self.left = [_MAX_FOLDS]
        self.accepted: Accepted = {}

    def run(self) -> Lowered:
        """The whole schema: the top first, then the definitions that it refers to."""
        lost: list[str] = []
        top = flatten_union(self.root, self.root, lost)
        for keyword in dict.fromkeys(lost):
            self.changed("", keyword, "was folded into one object", "the top is one object", True)
        if self.target.closed and takes_anything(top):
            self.changed("", "additionalProperties", "can't be sent", self._says_closed(), True)
        lowered = self.keywords.finish(top, self.object(top, "", 0, ()), ["object"], "")
        definitions: Schema = {}
        while len(definitions) < len(self.names):
            reference, name = list(self.names.items())[len(definitions)]
            self.current = reference
            definition = resolve_reference({"$ref": reference}, self.root)
            definitions[name] = self.node(definition, f"$defs.{name}", 0, False, ())
        if definitions:
            lowered["$defs"] = definitions
        return Lowered(lowered, tuple(dict.fromkeys(self.changes)), self.target.strict)

    def changed(self, path: str, keyword: str, what: str, why: str, lost: bool) -> None:
        """Record one change."""
        self.changes.append(SchemaChange(path, keyword, what, why, lost))

    def node(
        self, schema: Any, path: str, depth: int, taken: bool, above: tuple[str, ...]
    ) -> Schema:
        """Any schema below the top. If text is `taken`, a value as JSON text must be marked."""
        self.nodes += 1
        if not isinstance(schema, Mapping):
            schema = {}
        if depth > _MAX_DEPTH or self.nodes > _MAX_NODES:
            return self.encoded(schema, path, "schema", "the schema is too large", taken)
        if isinstance(schema.get("$ref"), str):
            return self.reference(schema, path, depth, taken, above)
        if isinstance(schema.get("allOf"), list):
            return self.node(self._fold_parts(schema, path), path, depth + 1, taken, above)
        if "const" in schema:
            rest = {key: value for key, value in schema.items() if key != "const"}
            schema = {**rest, "enum": [schema["const"]]}
        members = self._union_members(schema, path)
        if members is not None:
            return self.union(schema, members, path, depth, taken, above)
        return self.plain(schema, path, depth, taken, above)

    def plain(
        self, schema: Mapping[str, Any], path: str, depth: int, taken: bool, above: tuple[str, ...]
    ) -> Schema:
        """A schema without references and unions."""
        types = types_of(schema)
        if self.target.closed:
            if not types:
                return self.encoded(schema, path, "type", "any value is allowed", taken=True)
            if any(isinstance(value, dict | list) for value in _as_list(schema.get("enum"))):
                return self.encoded(schema, path, "enum", "it lists objects or arrays", taken)
            if types == ["object"] and is_open(schema):
                return self.encoded(schema, path, "type", "its properties have no names", taken)
        if types == ["null"] and self.target.flagged:
            self.changed(path, "type", "became text that may be null", "null is a flag", True)
            return self.keywords.annotated(schema, {"type": "STRING", "nullable": True}, path)
        lowered: Schema = {}
        if "object" in types:
            lowered = self.object(schema, path, depth, above)
        elif "array" in types:
            lowered = self.array(schema, path, depth, above)
        return self.keywords.finish(schema, lowered, types, path)

    def object(
        self, schema: Mapping[str, Any], path: str, depth: int, above: tuple[str, ...]
    ) -> Schema:
        """An object: its properties, the required ones, and whether others are allowed."""
        required = required_of(schema)
        listed = {**properties_of(schema), **_unnamed_properties(schema, required)}
        properties: Schema = {}
        needed: list[str] = []
        for name, inner in listed.items():
            if inner is False:
                if name in required:
                    self.changed(path, "required", f"lacks {name}", "nothing fits it", True)
                continue
            shown, place = self.key(name, path), f"{path}.{name}" if path else name
            lowered = self.node(inner, place, depth + 1, False, above)
            if name not in required and self.target.all_required:
                lowered = self._make_optional(lowered, inner, place)
            properties[shown] = lowered
            if name in required or self.target.all_required:
                needed.append(shown)
            if name in required and self._closes_a_ring(inner):
                needed.remove(shown)
                why = f"{self.target.title} unrolls a recursion only where it is optional"
                self.changed(place, "required", "became optional", why, True)
        result: Schema = {"type": "object"}
        if properties or self.target.closed or not path:
            result["properties"] = properties
        if needed:
            result["required"] = needed
        return {**result, **self._extra_properties(schema, path, depth, above)}

    def array(
        self, schema: Mapping[str, Any], path: str, depth: int, above: tuple[str, ...]
    ) -> Schema:
        """An array; items by position become a union if the target has no positions."""
        place = f"{path}[]"
        prefix = schema.get("prefixItems")
        if not isinstance(prefix, list) or not prefix:
            known = "items" in schema or self.target.closed
            inner = self.node(schema.get("items", {}), place, depth + 1, False, above)
            return {"type": "array", "items": inner} if known else {"type": "array"}
        rest = schema.get("items")
        if "prefixItems" in self.target.keywords:
            listed = [self.node(item, place, depth + 1, False, above) for item in prefix]
            result: Schema = {"type": "array", "prefixItems": listed}
            if isinstance(rest, Mapping):
                result["items"] = self.node(rest, place, depth + 1, False, above)
            return _end_array(result, schema, prefix) if rest is False else result
        return self._merge_positions(schema, prefix, path, depth, above)

    def union(
        self,
        schema: Mapping[str, Any],
        members: list[Any],
        path: str,
        depth: int,
        taken: bool,
        above: tuple[str, ...],
    ) -> Schema:
        """A choice of schemas. JSON text is marked if one of them is plain text."""
        taken = taken or any(
            accepts_type(member, "string", self.root, self.accepted) for member in members
        )
        # A target that marks null with a flag has no null member in a union.
        flag = self.target.flagged and any(map(_is_null, members))
        rest = [member for member in members if not (flag and _is_null(member))] or members[:1]
        lowered = [self.node(member, path, depth + 1, taken, above) for member in rest]
        kept = distinct(lowered)
        result: Schema = dict(kept[0]) if len(kept) == 1 else {"anyOf": kept}
        if flag:
            result["nullable"] = True
        return self.keywords.annotated(schema, result, path)

    def reference(
        self, schema: Mapping[str, Any], path: str, depth: int, taken: bool, above: tuple[str, ...]
    ) -> Schema:
        """A reference, kept or replaced by what it refers to."""
        reference = schema["$ref"]
        found = resolve_reference(schema, self.root)
        if not found and reference != "#":
            why = "only references inside the schema are followed"
            self.changed(path, "$ref", "was left out", why, True)
            return self.node(_without_key(schema, "$ref"), path, depth, taken, above)
        beside = {*schema} - {"$ref"} - ANNOTATIONS - SILENT
        if beside:
            return self.node(self._fold_parts(schema, path), path, depth + 1, taken, above)
        if not self.target.inline:
            name = self._definition_name(reference)
            return self.keywords.annotated(schema, {"$ref": write_reference("$defs", name)}, path)
        if above.count(reference) >= _UNROLLED:
            why = f"{self.target.title} has no recursion"
            return self.encoded(schema, path, "$ref", why, taken)
        whole = {**found, **_without_key(schema, "$ref")}
        return self.node(whole, path, depth + 1, taken, (*above, reference))

    def encoded(
        self, schema: Mapping[str, Any], path: str, keyword: str, why: str, taken: bool
    ) -> Schema:
        """A schema for a value that is sent as JSON text and decoded by lifting."""
        self.changed(path, keyword, "became JSON text", why, True)
        text: Schema = {"type": "STRING" if self.target.flagged else "string"}
        # The object marks the text as JSON, where plain text would be allowed too.
        marked: Schema = {
            "type": "OBJECT" if self.target.flagged else "object",
            "properties": {JSON_TEXT: text},
            "required": [JSON_TEXT],
            **({} if self.target.flagged else {"additionalProperties": False}),
        }
        note = f"The value as JSON text: {schema_in_words(schema, self.root)}."
        said = with_note(schema.get("description"), note)
        return {**(marked if taken else text), "description": note_default(said, schema)}

    def key(self, name: str, path: str, quiet: bool = False) -> str:
        """A property's name as the target accepts it."""
        pattern = self.target.key
        if pattern is None or pattern.match(name):
            return name
        if not quiet:
            why = f"{self.target.title} does not take the name"
            self.changed(path, f"{name!r}", f"is called {argument_name(name)}", why, False)
        return argument_name(name)

    def _merge_positions(
        self,
        schema: Mapping[str, Any],
        prefix: list[Any],
        path: str,
        depth: int,
        above: tuple[str, ...],
    ) -> Schema:
        """Items by position, as one union for all positions."""
        rest, most = schema.get("items", True), schema.get("maxItems")
        ends = rest is False or (isinstance(most, int) and most <= len(prefix))
        kinds = distinct(prefix)
        if not ends and rest not in kinds:
            kinds.append(rest)
        counted = "maxItems" in self.target.keywords
        if len(kinds) > 1 or (rest is False and not counted):
            why = f"{self.target.title} knows one kind of item for all positions"
            self.changed(path, "prefixItems", "became a choice for every position", why, True)
        choice = kinds[0] if len(kinds) == 1 else {"anyOf": kinds}
        inner = self.node(choice, f"{path}[]", depth + 1, False, above)
        result: Schema = {"type": "array", "items": inner}
        return _end_array(result, schema, prefix) if rest is False and counted else result

    def _union_members(self, schema: Mapping[str, Any], path: str) -> list[Any] | None:
        """The members of a union, each combined with the keywords beside the union."""
        for key in ("anyOf", "oneOf"):
            members = schema.get(key)
            if isinstance(members, list) and members:
                if key == "oneOf":
                    lost = not are_exclusive(members, self.root, self.accepted)
                    self.changed(path, "oneOf", "became anyOf", "it is not supported", lost)
                beside = {
                    each: value
                    for each, value in schema.items()
                    if each != key and each not in ANNOTATIONS | SILENT
                }
                return [self._merge_beside(beside, member, path) for member in members]
        return self._type_members(schema)

    def _type_members(self, schema: Mapping[str, Any]) -> list[Any] | None:
        """One member per type, if the target can't have several types in one schema."""
        values = schema.get("enum")
        if isinstance(values, list) and len(values) > 1 and None in values:
            rest = [value for value in values if value is not None]
            return [{**_drop_annotations(schema), "enum": rest}, {"type": "null"}]
        types = types_of(schema)
        if len(types) < 2 or "enum" in schema:
            return None
        if not self.target.flagged and SCALARS.issuperset(types):
            return None
        if not self.target.closed and not self.target.flagged and "type" in schema:
            return None
        return [{**_drop_annotations(schema), "type": kind} for kind in types]

    def _merge_beside(self, beside: Schema, member: Any, path: str) -> Any:
        if not beside:
            return member
        lost: list[str] = []
        both = join_schemas(fold_schema(member, self.root, lost, self.left), beside, lost)
        self._note_lost(lost, path)
        return both

    def _fold_parts(self, schema: Mapping[str, Any], path: str) -> Schema:
        lost: list[str] = []
        whole = fold_schema(schema, self.root, lost, self.left)
        self._note_lost(lost, path)
        return whole

    def _note_lost(self, keywords: list[str], path: str) -> None:
        for keyword in dict.fromkeys(keywords):
            self.changed(path, keyword, "could not be combined", "allOf is not supported", True)

    def _definition_name(self, reference: str) -> str:
        if reference not in self.names:
            wanted = argument_name(reference)
            last = last_name(reference)
            if last.isascii() and last.isidentifier() and last not in self.names.values():
                wanted = last
            self.names[reference] = wanted
        return self.names[reference]

    def _make_optional(self, lowered: Schema, schema: Any, place: str) -> Schema:
        """An optional property for a target without optional ones: null stands for absent."""
        marked = JSON_TEXT in properties_of(lowered)
        if accepts_type(schema, "null", self.root, self.accepted) and not marked:
            return lowered
        self.changed(place, "required", "may be null instead of absent", "all are required", False)
        return allow_null(lowered)

    def _closes_a_ring(self, schema: Any) -> bool:
        """Whether a property of a definition leads back to that definition."""
        if not self.target.finite or self.current is None:
            return False
        seen: set[str] = set()
        waiting = list(find_references(schema))
        while waiting:
            reference = waiting.pop()
            if reference == self.current:
                return True
            if reference not in seen:
                seen.add(reference)
                waiting += find_references(resolve_reference({"$ref": reference}, self.root))
        return False

    def _extra_properties(
        self, schema: Mapping[str, Any], path: str, depth: int, above: tuple[str, ...]
    ) -> Schema:
        extra = schema.get("additionalProperties", schema.get("unevaluatedProperties"))
        if self.target.closed:
            if extra not in (None, False) and path:
                self.changed(
                    path, "additionalProperties", "can't be sent", self._says_closed(), True
                )
            elif extra is None and path:
                self.changed(path, "additionalProperties", "is false", self._says_closed(), False)
            return {} if self.target.flagged else {"additionalProperties": False}
        if extra is None or isinstance(extra, bool):
            return {} if extra is None else {"additionalProperties": extra}
        return {"additionalProperties": self.node(extra, f"{path}.*", depth + 1, False, above)}

    def _says_closed(self) -> str:
        return f"{self.target.title} takes named properties alone"


def _end_array(array: Schema, schema: Mapping[str, Any], prefix: list[Any]) -> Schema:
    """An array that ends with its last position."""
    most = schema.get("maxItems")
    longest = min(len(prefix), most) if isinstance(most, int) else len(prefix)
    return {**array, "maxItems": longest}


def _is_null(schema: Any) -> bool:
    return isinstance(schema, Mapping) and types_of(schema) == ["null"]


def _unnamed_properties(schema: Mapping[str, Any], required: list[str]) -> Schema:
    """Properties that are required and described nowhere."""
    extra = schema.get("additionalProperties", {})
    return {name: extra for name in required if name not in properties_of(schema)}


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _drop_annotations(schema: Mapping[str, Any]) -> Schema:
    return {key: value for key, value in schema.items() if key not in ANNOTATIONS}


def _without_key(schema: Mapping[str, Any], key: str) -> Schema:
    return {each: value for each, value in schema.items() if each != key}
