"""Tools that a provider loads when its model searches for them."""

from typing import Any

import pytest
from anthropic.types import ToolParam, ToolSearchToolBm25_20251119Param
from openai.types.responses import FunctionToolParam, ToolSearchToolParam
from pydantic import TypeAdapter

from wieldy import Toolbox
from wieldy.core.choices import ProviderFormat
from wieldy.models.anthropic import anthropic_messages, write_anthropic
from wieldy.models.gemini import write_gemini
from wieldy.models.model import ModelRequest, Reply, Said
from wieldy.models.openai import write_chat
from wieldy.models.openai_responses import response_items, write_responses
from wieldy.wire import anthropic, openai_responses


@pytest.fixture
def box() -> Toolbox:
    box = Toolbox()
    for name in ("weather", "mail_send", "mail_read"):
        box.add(lambda city="": city, name=name, description=f"The tool {name}.")
    return box


def test_anthropic_is_told_which_tools_to_show_later(box: Toolbox) -> None:
    search, *tools = box.schemas("anthropic", defer="mail_*")

    assert search == {
        "type": "tool_search_tool_bm25_20251119",
        "name": "tool_search_tool_bm25",
    }
    TypeAdapter(ToolSearchToolBm25_20251119Param).validate_python(search)
    assert TypeAdapter(list[ToolParam]).validate_python(tools)
    assert [each.get("defer_loading") for each in tools] == [None, True, True]
    assert [{**each, "defer_loading": True} for each in box.schemas("anthropic")[1:]] == tools[1:]


def test_openai_is_told_which_tools_to_show_later(box: Toolbox) -> None:
    search, *tools = box.schemas("openai-responses", defer=["mail_send", "weather"])

    assert TypeAdapter(ToolSearchToolParam).validate_python(search) == {"type": "tool_search"}
    assert TypeAdapter(list[FunctionToolParam]).validate_python(tools)
    assert [each.get("defer_loading") for each in tools] == [True, True, None]


@pytest.mark.parametrize("provider", ["openai", "gemini", "mcp"])
def test_other_formats_say_what_to_do_instead(box: Toolbox, provider: ProviderFormat) -> None:
    with pytest.raises(ValueError, match="add_search_tools"):
        box.schemas(provider, defer="*")


def test_where_nothing_is_deferred_there_is_no_search(box: Toolbox) -> None:
    assert box.schemas("anthropic", defer="none_*") == box.schemas("anthropic")
    assert box.schemas("openai", defer=()) == box.schemas("openai")


def test_a_request_takes_the_option_and_does_not_send_it(box: Toolbox) -> None:
    request = ModelRequest([Said("user", "hi")], box, {"defer_tools": "*"})

    bare = ModelRequest([Said("user", "hi")], None, {"defer_tools": "*"})

    for write in (write_anthropic, write_responses, write_chat, write_gemini):
        assert "defer" not in str(write("some-model", bare, True))
    for write in (write_anthropic, write_responses):
        body = write("some-model", request, True)
        assert "defer_tools" not in body
        assert [each.get("defer_loading") for each in body["tools"]] == [None, True, True, True]


SEARCHED = {
    "type": "tool_search_tool_result",
    "tool_use_id": "srvtoolu_1",
    "content": {
        "type": "tool_search_tool_search_result",
        "tool_references": [{"type": "tool_reference", "tool_name": "mail_send"}],
    },
}
USE = {"type": "tool_use", "id": "toolu_1", "name": "mail_send", "input": {}}


def anthropic_events() -> list[dict[str, Any]]:
    search = {
        "type": "server_tool_use",
        "id": "srvtoolu_1",
        "name": "tool_search_tool_bm25",
        "input": {},
    }
    pieces = {0: '{"query": "mail"}', 2: '{"city": "Oslo"}'}
    events: list[dict[str, Any]] = []
    for index, block in enumerate((search, SEARCHED, USE)):
        events.append({"type": "content_block_start", "index": index, "content_block": block})
        if index in pieces:
            delta = {"type": "input_json_delta", "partial_json": pieces[index]}
            events.append({"type": "content_block_delta", "index": index, "delta": delta})
        events.append({"type": "content_block_stop", "index": index})
    return [*events, {"type": "message_delta", "delta": {"stop_reason": "tool_use"}}]


def test_what_anthropic_searched_is_passed_over_and_sent_back_as_it_came(box: Toolbox) -> None:
    reader = anthropic.StreamReader(box)
    for event in anthropic_events():
        reader.feed(event)

    (call,) = reader.calls
    assert (call.tool, call.arguments) == ("mail_send", {"city": "Oslo"})
    content = reader.message["content"]
    assert [block["type"] for block in content][:2] == ["server_tool_use", SEARCHED["type"]]
    assert content[0]["input"] == {"query": "mail"}
    assert content[1] == SEARCHED
    assert [each.tool for each in anthropic.parse_calls(reader.message, box)] == ["mail_send"]
    reply = Reply("anthropic", reader.message, calls=reader.calls)
    assert anthropic_messages([reply])[1] == [reader.message]


def responses_items() -> list[dict[str, Any]]:
    definition = {"type": "function", "name": "mail_send", "defer_loading": True, "parameters": {}}
    searched = {"id": "tsc_1", "execution": "server", "call_id": None, "status": "completed"}
    return [
        {"type": "tool_search_call", **searched, "arguments": {"paths": ["mail_send"]}},
        {"type": "tool_search_output", **searched, "id": "tso_1", "tools": [definition]},
        {
            "type": "function_call",
            "id": "fc_1",
            "call_id": "call_1",
            "name": "mail_send",
            "namespace": "mail_send",
            "arguments": '{"city": "Oslo"}',
        },
    ]


def test_what_openai_searched_is_passed_over_and_sent_back_as_it_came(box: Toolbox) -> None:
    reader = openai_responses.StreamReader(box)
    items = responses_items()
    for index, item in enumerate(items):
        for kind in ("added", "done"):
            event = {"type": f"response.output_item.{kind}", "output_index": index, "item": item}
            reader.feed(event)
    reader.feed({"type": "response.completed", "response": {"output": [], "status": "completed"}})

    (call,) = reader.calls
    assert (call.tool, call.provider_id) == ("mail_send", "call_1")
    assert reader.message == items
    assert len(openai_responses.parse_calls({"output": items}, box)) == 1
    reply = Reply("openai-responses", reader.message, calls=reader.calls)
    assert response_items([reply]) == items
