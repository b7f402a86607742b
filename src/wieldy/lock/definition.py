"""The definition of a tool, in the form that the lock keeps and compares."""

from typing import Any

from pydantic import BaseModel, ConfigDict

from wieldy.core.bounded_json import MAX_WRAPPED, dump_json, parse_json
from wieldy.core.canonical import canonical_json
from wieldy.core.tool import Tool, definition_digest
from wieldy.core.visible_text import visible_json


class Definition(BaseModel):
    """A tool's source, description, schemas and traits."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    fingerprint: str
    source: str
    # A list of lines, so that a changed line is a changed line in the lock file.
    description: list[str]
    input_schema: dict[str, Any]
    output_schema: dict[str, Any] | None
    traits: dict[str, bool]

    @classmethod
    def of(cls, tool: Tool) -> "Definition":
        """The current definition of a tool."""
        found = cls(
            fingerprint="",
            source=tool.source,
            description=tool.stated_description.split("\n"),
            input_schema=_plain_schema(tool.input_schema),
            output_schema=_plain_schema(tool.declared_output),
            traits=tool.locked_traits,
        )
        return found.model_copy(update={"fingerprint": found.expected(tool.name)})

    def expected(self, name: str) -> str:
        """The fingerprint of a tool with this name and this definition."""
        text = "\n".join(self.description)
        return definition_digest(name, text, self.input_schema, self.output_schema, self.traits)

    def same(self, other: "Definition | None") -> bool:
        """Whether another definition is equal, including its source."""
        if other is None:
            return False
        return (self.fingerprint, self.source) == (other.fingerprint, other.source)

    def lines(self) -> list[str]:
        """The lines of the definition, with hidden characters made visible."""
        return visible_json(self.model_dump()).split("\n")


def _plain_schema(schema: dict[str, Any] | None) -> Any:
    """The schema as JSON; a value that JSON can't express is written as in the fingerprint."""
    text = dump_json(schema, default=lambda value: parse_json(canonical_json(value), MAX_WRAPPED))
    return parse_json(text)
