"""What a tool says of itself, as the lock keeps it and compares it."""

import json
from typing import Any

from pydantic import BaseModel, ConfigDict

from wieldy.core.canonical import canonical_json
from wieldy.core.tool import Tool, definition_digest
from wieldy.core.visible_text import visible_json


class Definition(BaseModel):
    """A tool's words: where it is from, its description, its schemas and its traits."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    fingerprint: str
    source: str
    # A line each, so that a changed line is a changed line in the file.
    description: list[str]
    input_schema: dict[str, Any]
    output_schema: dict[str, Any] | None
    traits: dict[str, bool]

    @classmethod
    def of(cls, tool: Tool) -> "Definition":
        """What the tool says now."""
        found = cls(
            fingerprint="",
            source=tool.source,
            description=tool.description.split("\n"),
            input_schema=_plain(tool.input_schema),
            output_schema=_plain(tool.declared_output),
            traits=tool.locked_traits,
        )
        return found.model_copy(update={"fingerprint": found.expected(tool.name)})

    def expected(self, name: str) -> str:
        """The fingerprint that a tool of this name has if it says what is kept here."""
        text = "\n".join(self.description)
        return definition_digest(name, text, self.input_schema, self.output_schema, self.traits)

    def same(self, other: "Definition | None") -> bool:
        """Whether another says the same and is from the same place."""
        if other is None:
            return False
        return (self.fingerprint, self.source) == (other.fingerprint, other.source)

    def lines(self) -> list[str]:
        """The definition line by line, with everything hidden in it made visible."""
        return visible_json(self.model_dump()).split("\n")


def _plain(schema: dict[str, Any] | None) -> Any:
    """The schema as JSON holds it; a value that JSON does not know stands as its digest would."""
    return json.loads(json.dumps(schema, default=lambda value: json.loads(canonical_json(value))))
