"""MCP: one call per request, one result per outcome."""

from typing import Any

import pytest

from wieldy import Call, Outcome, Status, Toolbox
from wieldy.core.block import Image, Text
from wieldy.core.errors import CallDenied
from wieldy.wire import mcp


@pytest.fixture
def box() -> Toolbox:
    box = Toolbox()

    @box.tool
    def add(a: int, b: int = 2) -> int:
        return a + b

    return box


def test_a_request_or_its_parameters_give_the_call(box: Toolbox) -> None:
    params = {"name": "add", "arguments": {"a": 1}}
    request = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}

    [asked] = mcp.parse_calls(request, box)
    [plain] = mcp.parse_calls(params, box)

    assert (asked.provider_id, asked.tool, asked.arguments) == ("7", "add", {"a": 1})
    assert (plain.provider_id, plain.tool, plain.arguments) == (None, "add", {"a": 1})


@pytest.mark.parametrize("odd", [None, "x", {}, {"method": "tools/list"}, {"params": {"name": 3}}])
def test_any_other_message_holds_no_call(odd: Any, box: Toolbox) -> None:
    assert mcp.parse_calls(odd, box) == []


def test_results_have_content_structure_and_failure() -> None:
    call = Call("add", {})
    outcomes = [
        Outcome(call.replace(id="1"), Status.OK, {"n": 1}),
        Outcome(call.replace(id="2"), Status.OK, "text"),
        Outcome(call.replace(id="3"), Status.OK, None),
        Outcome(call.replace(id="4"), Status.OK, None, content=(Text("a"), Image(b"i"))),
        Outcome(call.replace(id="5"), Status.DENIED, error=CallDenied("add", "no")),
    ]

    denied = {"type": "text", "text": "The call of add was denied: no"}
    assert mcp.render(outcomes) == [
        {
            "content": [{"type": "text", "text": '{"n":1}'}],
            "isError": False,
            "structuredContent": {"n": 1},
        },
        {"content": [{"type": "text", "text": "text"}], "isError": False},
        {"content": [], "isError": False},
        {
            "content": [
                {"type": "text", "text": "a"},
                {"type": "image", "data": "aQ==", "mimeType": "image/png"},
            ],
            "isError": False,
        },
        {"content": [denied], "isError": True},
    ]
