"""References whose names have spaces, slashes and tildes are followed like any others."""

from typing import Any

import pytest

from wieldy import Toolbox
from wieldy.core.schema.schema_references import find_part, split_reference, write_reference
from wieldy.wire.structured.structured_stream import StructuredStream


async def take(**values: Any) -> Any:
    """Take it."""
    return values


def schema_with(reference: str, name: str) -> dict[str, Any]:
    inner = {"type": "integer", "description": "how many"}
    return {
        "type": "object",
        "properties": {"n": {"$ref": reference}},
        "required": ["n"],
        "$defs": {name: inner},
    }


REFERENCES = [
    ("#/$defs/a%20b", "a b"),
    ("#/$defs/a~1b%25", "a/b%"),
    ("#/$defs/%C3%A9~0", "é~"),
    ("#/%24defs/plain", "plain"),
]


@pytest.mark.parametrize(("reference", "name"), REFERENCES)
async def test_what_a_reference_leads_to_is_repaired_described_and_lowered(
    reference: str, name: str
) -> None:
    box = Toolbox()
    box.add(take, name="take", input_schema=schema_with(reference, name))

    repaired = await box.call("take", {"n": "5"})
    refused = await box.call("take", {"n": "x"})

    assert repaired.value == {"n": 5}
    assert [each["kind"] for each in repaired.metadata["repairs"]] == ["integer_from_text"]
    assert "expected integer" in refused.text
    for provider in ("openai", "anthropic", "gemini"):
        [described] = box.schemas(provider, strict=provider == "openai")
        assert "integer" in str(described) and "json_text" not in str(described)


@pytest.mark.parametrize(("reference", "name"), REFERENCES)
async def test_a_preset_below_a_reference_is_removed_from_what_it_leads_to(
    reference: str, name: str
) -> None:
    schema = schema_with(reference, name)
    schema["properties"]["key"] = {"type": "string"}
    box = Toolbox()
    box.add(take, name="take", input_schema=schema, presets={"key": "own"})
    [shown] = box.schemas("mcp")
    assert find_part(shown["inputSchema"]["properties"]["n"]["$ref"], shown["inputSchema"]) == {
        "type": "integer",
        "description": "how many",
    }
    assert (await box.call("take", {"n": "5"})).value == {"n": 5, "key": "own"}


@pytest.mark.parametrize(("reference", "name"), REFERENCES)
def test_structured_output_knows_what_a_reference_leads_to(reference: str, name: str) -> None:
    schema = {"$ref": reference, "$defs": {name: {"type": "array"}}}
    stream = StructuredStream(schema)
    stream.feed('See {this} first: ["a"]')
    stream.close()
    assert stream.value == ["a"]


@pytest.mark.parametrize("names", [("$defs", "a b"), ("$defs", "a/b~%"), ("x", "é", "0")])
def test_a_reference_is_read_as_it_was_written(names: tuple[str, ...]) -> None:
    assert split_reference(write_reference(*names)) == [*names]
