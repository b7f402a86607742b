"""Read the operations of a document, with their names and parameters."""

import hashlib
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from wieldy.core.errors import DocumentError
from wieldy.core.short_text import cut_text

from .document import Document, Node

METHODS = ("get", "put", "post", "delete", "options", "head", "patch", "trace")
PLACES = ("path", "query", "header", "cookie")
TEMPLATE = re.compile(r"\{([^{}/]+)\}")
_MAX_NAME = 64
_MAX_TEXT = 600
_ODD = re.compile(r"[^a-zA-Z0-9_]+")


class Operation:
    """One operation as the document writes it."""

    __slots__ = ("document", "id", "item", "method", "name", "node", "original_names", "path")

    def __init__(self, document: Document, method: str, path: str, item: Node, node: Node) -> None:
        self.document = document
        self.method = method.upper()
        self.path = path
        self.item = item
        self.node = node
        given = node.get("operationId")
        self.id = given if isinstance(given, str) and given.strip() else None
        self.name = ""
        self.original_names: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """The method and the path, as people write them."""
        return f"{self.method} {self.path}"

    @property
    def tags(self) -> list[str]:
        """The document's own tags."""
        tags = self.node.get("tags")
        return [tag for tag in tags if isinstance(tag, str)] if isinstance(tags, list) else []

    @property
    def description(self) -> str:
        """What the operation does, in a few lines."""
        texts = [
            text.strip()
            for key in ("summary", "description")
            for holder in (self.node, self.item)
            for text in (holder.get(key),)
            if isinstance(text, str) and text.strip()
        ]
        texts = list(dict.fromkeys(texts)) or [self.title]
        if self.node.get("deprecated") is True:
            texts.insert(0, "Deprecated.")
        return cut_text("\n".join(texts), _MAX_TEXT)

    @property
    def parameters(self) -> list[Node]:
        """The parameters of the operation and of its path, references followed."""
        found: dict[tuple[str, str], Node] = {}
        for holder in (self.item, self.node):
            listed = holder.get("parameters")
            for each in listed if isinstance(listed, list) else []:
                parameter = self._follow_node(Node(each, holder.address), "parameter")
                name, place = parameter.get("name"), parameter.get("in")
                if not isinstance(name, str) or not name or place not in PLACES:
                    raise self._broken_error("a parameter needs a name and a place")
                found[name, place] = parameter
        return self._match_path(found)

    @property
    def body(self) -> Node | None:
        """What the operation takes as its body, references followed."""
        node = self.node.child("requestBody")
        return self._follow_node(node, "requestBody") if isinstance(node.value, Mapping) else None

    def check(self) -> None:
        """Raise `DocumentError` if the operation can't be called as it is written."""
        _ = self.parameters, self.body

    def _match_path(self, found: dict[tuple[str, str], Node]) -> list[Node]:
        """The parameters, with exactly the path parameters of the path; many documents omit one."""
        named = TEMPLATE.findall(self.path)
        for name in named:
            plain = {"name": name, "in": "path", "schema": {"type": "string"}}
            found.setdefault((name, "path"), Node(plain, self.item.address))
        return [node for (name, place), node in found.items() if place != "path" or name in named]

    def _follow_node(self, node: Node, what: str) -> Node:
        target = self.document.follow(node)
        if target is None:
            raise self._broken_error(
                f"a {what} refers to {node.get('$ref')!r:.200}, which is not there"
            )
        return target

    def _broken_error(self, reason: str) -> DocumentError:
        return DocumentError(
            self.document.shown,
            f"{self.title}: {reason}. Correct it, or leave it out with deny=[{self.title!r}].",
        )


def read_operations(document: Document, prefix: str | None = None) -> list[Operation]:
    """Every operation, in the document's order, each with a name of its own."""
    found = list(_list_operations(document))
    wanted = [_wanted_name(operation, prefix) for operation in found]
    counts = Counter(wanted)
    for operation, name in zip(found, wanted, strict=True):
        plain = counts[name] == 1 and len(name) <= _MAX_NAME
        operation.name = name if plain else _hashed_name(name, operation)
        own = (operation.id, _wanted_name(operation, None), name)
        operation.original_names = tuple(dict.fromkeys(each for each in own if each))
    return found


def _list_operations(document: Document) -> Iterator[Operation]:
    paths = document.root.get("paths") or {}
    for path, value in paths.items():
        if not isinstance(path, str) or path.startswith("x-"):
            continue
        item = document.follow(Node(value, document.address))
        if item is None or not isinstance(item.value, Mapping):
            reason = f"the path {path!r:.200} is not an object, or refers to nothing"
            raise DocumentError(document.shown, reason)
        for method in METHODS:
            given: Any = item.value.get(method)
            if isinstance(given, Mapping):
                yield Operation(document, method, path, item, Node(given, item.address))


def _wanted_name(operation: Operation, prefix: str | None) -> str:
    name = _ODD.sub("_", operation.id or "").strip("_")
    if not name:
        name = _ODD.sub("_", f"{operation.method.lower()} {operation.path}").strip("_")
    return f"{prefix}_{name}" if prefix else name


def _hashed_name(name: str, operation: Operation) -> str:
    """A name that depends only on this operation, and not on the order of the document."""
    digest = hashlib.sha256(f"{operation.id} {operation.title}".encode()).hexdigest()[:8]
    return f"{name[: _MAX_NAME - 9].rstrip('_')}_{digest}"
