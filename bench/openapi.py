"""What it costs to add the operations of a large OpenAPI document."""

import asyncio
import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from wieldy import Toolbox

from .clock import interleaved
from .effort import Effort
from .row import Row, ratio

# About what an operation takes in GitHub's document, most of it answers and examples.
_BYTES = 10_000


def openapi(effort: Effort) -> list[Row]:
    """Parse the JSON alone, and add its operations to a box."""
    count = effort.count(1200)
    text = json.dumps(_document(count))
    with TemporaryDirectory() as folder:
        file = Path(folder) / "openapi.json"
        file.write_text(text, encoding="utf-8")
        # The extra is loaded before it is measured.
        asyncio.run(Toolbox().add_openapi(file))
        base, ours = interleaved(
            effort.rounds(7),
            lambda: json.loads(file.read_bytes()),
            lambda: asyncio.run(Toolbox().add_openapi(file)),
        )
    name = f"adding {count:,} operations from OpenAPI"
    return [ratio(name, ours * 1e3, base * 1e3, "ms", "json.loads of the document", 5)]


def _document(count: int) -> dict[str, Any]:
    return {
        "openapi": "3.0.3",
        "info": {"title": "Bench", "version": "1"},
        "paths": {f"/teams/{{id}}/things{n}": {"get": _operation(n)} for n in range(count)},
        "components": {
            "parameters": {"page": {"name": "page", "in": "query", "schema": {"type": "integer"}}}
        },
    }


def _operation(number: int) -> dict[str, Any]:
    entry = {"id": number, "name": "a thing of some length", "tags": ["one", "two"], "ok": True}
    example = [entry] * (_BYTES // len(json.dumps(entry)))
    content = {"application/json": {"schema": {"type": "array"}, "example": example}}
    return {
        "operationId": f"things/list-{number}",
        "summary": f"List the things of shelf {number}",
        "description": "Everything that stands there, the newest first. " * 4,
        "tags": ["things"],
        "parameters": [
            {"name": "id", "in": "path", "required": True, "schema": {"type": "string"}},
            {"$ref": "#/components/parameters/page"},
        ],
        "responses": {"200": {"description": "ok", "content": content}},
    }
