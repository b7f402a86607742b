"""Tools as each provider wants them described."""

from typing import Any

import pytest

from wieldy import Toolbox
from wieldy.wire.definitions import tool_definitions

PARAMETERS = {
    "type": "object",
    "properties": {"a": {"type": "integer"}},
    "required": ["a"],
    "additionalProperties": False,
}
OPENAPI = {"type": "OBJECT", "properties": {"a": {"type": "INTEGER"}}, "required": ["a"]}
HINTS = {"readOnlyHint": True}


@pytest.fixture
def box() -> Toolbox:
    box = Toolbox()

    @box.tool(read_only=True)
    def half(a: int) -> dict[str, int]:
        """Half of it."""
        return {"half": a // 2}

    return box


@pytest.mark.parametrize(
    ("provider", "strict", "expected"),
    [
        ("openai", False, {"type": "function", "function": {"parameters": PARAMETERS}}),
        (
            "openai",
            True,
            {"type": "function", "function": {"parameters": PARAMETERS, "strict": True}},
        ),
        (
            "openai-responses",
            False,
            {"type": "function", "parameters": PARAMETERS, "strict": False},
        ),
        ("openai-responses", True, {"type": "function", "parameters": PARAMETERS, "strict": True}),
        ("anthropic", False, {"input_schema": PARAMETERS}),
        ("anthropic", True, {"input_schema": PARAMETERS, "strict": True}),
        ("gemini", False, {"parametersJsonSchema": PARAMETERS}),
        ("gemini-openapi", False, {"parameters": OPENAPI}),
        ("mcp", False, {"inputSchema": PARAMETERS, "annotations": HINTS}),
    ],
)
def test_a_tool_is_described_as_the_provider_wants_it(
    provider: str, strict: bool, expected: dict[str, Any], box: Toolbox
) -> None:
    said = {"name": "half", "description": "Half of it."}
    if "function" in expected:
        expected = {**expected, "function": {**said, **expected["function"]}}
    else:
        expected = {**said, **expected}
    if provider == "mcp":
        expected["outputSchema"] = box.get("half").output_schema  # type: ignore[union-attr]

    assert tool_definitions(box, provider, strict) == [expected]


def test_a_function_without_parameters_has_none_in_the_old_subset() -> None:
    box = Toolbox()
    box.add(lambda: None, name="now")

    assert tool_definitions(box, "gemini-openapi") == [{"name": "now", "description": ""}]


def test_strict_tools_beyond_anthropics_limit_are_described_without(box: Toolbox) -> None:
    for n in range(25):
        box.add(lambda a: a, name=f"tool{n}", input_schema=PARAMETERS)

    marked = [
        definition.get("strict", False) for definition in tool_definitions(box, "anthropic", True)
    ]

    assert marked == [True] * 20 + [False] * 6


def test_optional_and_choice_parameters_are_counted_for_anthropic() -> None:
    box = Toolbox()
    optional = {"type": "object", "properties": {f"p{n}": {"type": "string"} for n in range(20)}}
    box.add(lambda: None, name="many", input_schema=optional)
    box.add(lambda: None, name="more", input_schema=optional)
    box.add(lambda: None, name="plain", input_schema=PARAMETERS)

    marked = [
        definition.get("strict", False) for definition in tool_definitions(box, "anthropic", True)
    ]

    assert marked == [True, False, True]


def test_a_tool_that_cant_be_strict_says_so_to_openai() -> None:
    box = Toolbox()

    @box.tool
    def log(**fields: int) -> None: ...

    [definition] = tool_definitions(box, "openai", strict=True)

    assert definition["function"]["strict"] is False


def test_an_unknown_provider_is_refused_with_a_near_name(box: Toolbox) -> None:
    with pytest.raises(ValueError, match="Did you mean: anthropic"):
        tool_definitions(box, "antropic")


def test_mcp_keeps_the_dialect_that_a_schema_names() -> None:
    dialect = "https://json-schema.org/draft/2020-12/schema"
    box = Toolbox()
    box.add(lambda a: a, name="same", input_schema={"$schema": dialect, **PARAMETERS})

    assert box.schemas("mcp")[0]["inputSchema"]["$schema"] == dialect
    assert "$schema" not in box.schemas("openai")[0]["function"]["parameters"]


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ({}, None),
        ({"read_only": None, "destructive": None}, None),
        ({"destructive": False}, {"destructiveHint": False}),
        (
            {"idempotent": True, "destructive": True},
            {"destructiveHint": True, "idempotentHint": True},
        ),
        ({"read_only": False}, {"readOnlyHint": False}),
    ],
)
def test_mcp_clients_are_given_no_hint_that_nobody_gave(
    said: dict[str, bool | None], told: dict[str, bool] | None
) -> None:
    box = Toolbox()
    box.add(lambda: 1, "one", **said)  # type: ignore[arg-type]

    assert box.schemas("mcp")[0].get("annotations") == told
