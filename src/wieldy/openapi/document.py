"""An OpenAPI document, checked as far as necessary, whose references are followed on request."""

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urljoin

from wieldy.core.errors import DocumentError
from wieldy.core.schema.references import split_reference, step_down

_MAX_CHAIN = 50
# Values that stand under these keys are data or notes: nothing in them is a reference.
_DATA = frozenset({"example", "examples", "default", "enum", "const", "links", "discriminator"})
# The keys of the objects under these keys are names that the document's author chose.
_NAMED = frozenset({
    "paths", "webhooks", "properties", "patternProperties", "$defs", "definitions", "schemas",
    "dependentSchemas", "responses", "requestBodies", "headers", "callbacks", "securitySchemes",
    "content", "encoding", "pathItems",
})  # fmt: skip


class Node:
    """A part of a document, with the document's address."""

    __slots__ = ("address", "value")

    def __init__(self, value: Any, address: str) -> None:
        self.value = value
        self.address = address

    def get(self, key: str) -> Any:
        """The value under a key, or None."""
        value = self.value
        # The value is almost always a dict, for which this check is much faster.
        return value.get(key) if type(value) is dict or isinstance(value, Mapping) else None

    def child(self, key: str) -> "Node":
        """The piece under a key."""
        return Node(self.get(key), self.address)


class Document:
    """The document of an API and those that it refers to. Nothing is read or fetched here."""

    def __init__(self, address: str, shown: str, data: Any, asked: str | None = None) -> None:
        self.address = address
        # The address that the caller gave, which decides what the caller trusts.
        self.asked = asked or address
        self.shown = shown
        self.root = _check_document(shown, data)
        self.documents: dict[str, Any] = {address: data}
        self.is_30 = str(self.root["openapi"]).startswith("3.0")

    @property
    def title(self) -> str:
        """The title of the document, or "untitled"."""
        info = self.root.get("info")
        title = info.get("title") if isinstance(info, Mapping) else None
        return title if isinstance(title, str) and title else "untitled"

    def follow(self, node: Node) -> Node | None:
        """The part that references lead to; None if they lead nowhere."""
        for _ in range(_MAX_CHAIN):
            reference = node.get("$ref")
            if not isinstance(reference, str):
                return node
            found = self.find(reference, node.address)
            if found is None:
                return None
            node = found
        return None

    def find(self, reference: str, address: str) -> Node | None:
        """The part that a reference names, if its document has been loaded."""
        try:
            target, fragment = self.locate(reference, address)
        except ValueError:
            return None
        here = step_down(self.documents.get(target), split_reference(reference))
        usable = isinstance(here, Mapping | bool) and (not fragment or fragment[0] == "/")
        return Node(here, target) if usable else None

    def locate(self, reference: str, address: str) -> tuple[str, str]:
        """The document that a reference names, as an address, and the place in it."""
        target, _, fragment = reference.partition("#")
        return (urljoin(address, target) if target else address), fragment


def outward_references(data: Any) -> Iterator[str]:
    """Every reference in a document that leads out of it."""
    rest: list[tuple[Any, bool]] = [(data, False)]
    seen: set[int] = set()
    while rest:
        node, named = rest.pop()
        if not isinstance(node, dict | list | Mapping) or id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, list):
            rest += [(item, False) for item in node if not isinstance(item, str)]
            continue
        reference = None if named else node.get("$ref")
        if isinstance(reference, str) and reference[:1] != "#":
            yield reference
        for key, value in node.items():
            # Most values of a document are strings, so they are skipped first.
            if isinstance(value, str):
                continue
            if named:
                rest.append((value, False))
            elif key not in _DATA and str(key)[:2] != "x-":
                rest.append((value, key in _NAMED))


def _check_document(shown: str, data: Any) -> Mapping[str, Any]:
    if not isinstance(data, Mapping):
        raise DocumentError(shown, "it is not an OpenAPI document: an object is needed")
    version = data.get("openapi")
    if version is None and "swagger" in data:
        raise DocumentError(
            shown,
            f"it is Swagger {data['swagger']}, and OpenAPI 3.0 or 3.1 is needed. "
            "Convert it, for example with swagger2openapi.",
        )
    if version is None:
        raise DocumentError(shown, 'it is not an OpenAPI document: there is no "openapi" in it')
    if not str(version).startswith(("3.0", "3.1")):
        raise DocumentError(shown, f"it is OpenAPI {version!s:.20}, and 3.0 or 3.1 is needed")
    for part in ("paths", "components", "webhooks"):
        if not isinstance(data.get(part, {}), Mapping):
            raise DocumentError(shown, f'its "{part}" must be an object')
    if not data.keys() & {"paths", "components", "webhooks"}:
        raise DocumentError(shown, 'it is not an OpenAPI document: there are no "paths" in it')
    return data
