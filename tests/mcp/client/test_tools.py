"""What becomes of a server's tools, resources and prompts in a toolbox."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.mcp.conftest import SHOP, raw
from wieldy import Audio, Image, Limits, RemoteFailure, Resource, Status, Text, Toolbox, ToolFailed
from wieldy.core.choices import ServerConflictPolicy
from wieldy.core.errors import InvalidSource
from wieldy.mcp import server

# What FastMCP says of a function that gives a number.
COUNTED = {
    "type": "object",
    "properties": {"result": {"type": "integer"}},
    "required": ["result"],
    "x-fastmcp-wrap-result": True,
}


async def test_only_what_is_allowed_and_not_denied_comes_in(box: Toolbox) -> None:
    await box.add_mcp(SHOP, allow=["p*", "add"], deny="pid")

    assert box.names == ["add", "price", "picture", "peek"]


async def test_a_name_on_the_allow_list_that_is_not_there_is_logged(
    box: Toolbox, caplog: pytest.LogCaptureFixture
) -> None:
    await box.add_mcp(SHOP, allow=["add", "sub"])

    assert box.names == ["add"]
    assert "'sub'" in caplog.text


async def test_a_prefix_is_put_before_each_name_and_rules_against_the_server_s_own_names_hold(
    box: Toolbox,
) -> None:
    box.add(lambda a: "mine", name="one_add")
    await box.add_mcp(SHOP, name="shop", allow=["add", "price"], prefix="one_")
    await box.add_mcp(SHOP, name="second", allow=["add"], prefix="two-")

    assert box.names == ["one_add", "shop__one_add", "one_price", "two-add"]
    assert (await box.call("two-add", {"a": 1, "b": 2})).text == "3"
    box.rules.deny("add")
    assert (await box.call("two-add", {"a": 1, "b": 2})).status is Status.DENIED


@pytest.mark.parametrize("prefix", ["a b", "ä_", "x" * 41, "a.b", "a/", "\n", "a_\n"])
async def test_a_prefix_that_providers_would_refuse_is_refused(box: Toolbox, prefix: str) -> None:
    with pytest.raises(ValueError, match="prefix is up to 40 letters"):
        await box.add_mcp(SHOP, prefix=prefix)


async def test_a_prefix_is_for_one_server(box: Toolbox) -> None:
    entry = {"command": sys.executable, "args": [SHOP]}
    with pytest.raises(InvalidSource, match="prefix= is for one server"):
        await box.add_mcp({"mcpServers": {"a": entry, "b": entry}}, prefix="x_")


async def test_a_rule_against_a_name_holds_for_a_renamed_tool_and_one_for_it_does_not(
    box: Toolbox,
) -> None:
    @box.tool
    def add(a: int) -> str:
        return "mine"

    await box.add_mcp(SHOP, name="shop", allow=["add"], permission="confirm")
    assert box.names == ["add", "shop__add"]
    box.rules.allow("add")
    assert (await box.call("shop__add", {"a": 1})).status is Status.PENDING
    box.rules.deny("add")
    assert (await box.call("shop__add", {"a": 1})).status is Status.DENIED
    assert (await box.call("add", {"a": 1})).status is Status.DENIED


@pytest.mark.parametrize("server", ["shop", "a__b", "__", "a__", "wipe__shop"])
@pytest.mark.parametrize("taken", [(), ("add",), ("add", "{}__add"), ("add", "{}__add_2")])
async def test_a_denied_name_holds_whatever_the_server_is_called_and_however_it_was_renamed(
    box: Toolbox, server: str, taken: tuple[str, ...]
) -> None:
    for name in taken:
        box.add(lambda a: "mine", name=name.format(server))
    await box.add_mcp(SHOP, name=server, allow=["add"], permission="confirm")
    theirs = box.names[-1]
    box.rules.allow("add")
    expected = Status.PENDING if taken else Status.OK
    assert (await box.call(theirs, {"a": 1})).status is expected
    box.rules.deny("add")
    assert (await box.call(theirs, {"a": 1})).status is Status.DENIED


async def test_two_underscores_in_a_server_s_own_name_mean_nothing(box: Toolbox) -> None:
    @box.tool(name="shop__add")
    def mine(a: int) -> str:
        return "mine"

    await box.add_mcp(server(box), name="box", on_conflict="rename")
    box.rules.deny("add")
    assert [(await box.call(name, {"a": 1})).status.value for name in box.names] == ["ok", "ok"]


async def test_a_derived_tool_of_a_server_is_denied_by_the_server_s_name(box: Toolbox) -> None:
    await box.add_mcp(SHOP, allow=["add"])
    [tool] = box
    box.add(tool.derive(name="plus"))
    box.rules.deny("add")
    assert (await box.call("plus", {"a": 1})).status is Status.DENIED
    assert tool.replace(original_names=()).fingerprint == tool.fingerprint


async def test_the_earlier_tool_keeps_its_name(box: Toolbox) -> None:
    @box.tool
    def add(a: int) -> str:
        return "mine"

    @box.tool
    def shop__price() -> str:
        return "mine too"

    @box.tool
    def price() -> str:
        return "mine as well"

    await box.add_mcp(SHOP, allow=["add", "price"])

    assert box.names == ["add", "shop__price", "price", "shop__add", "shop__price_2"]
    assert (await box.call("add", {"a": 1})).value == "mine"
    assert (await box.call("shop__add", {"a": 1})).value == {"result": 3}


async def test_tags_permission_and_limits_are_on_every_tool(box: Toolbox) -> None:
    await box.add_mcp(SHOP, tags="web", permission="confirm", limits=Limits(timeout=7))

    assert {tool.tags for tool in box} == {("web",)}
    assert {tool.limits.timeout for tool in box} == {7}
    parked = await box.call("add", {"a": 1})
    assert parked.status is Status.PENDING
    assert (await box.approve(parked.call.id, by="ann")).value == {"result": 3}


async def test_results_are_kept_of_read_only_tools_alone(box: Toolbox) -> None:
    await box.add_mcp(SHOP, allow=["peek", "add"], trusted=True, limits=Limits(cache=60))

    assert {tool.name: tool.limits.cache for tool in box} == {"add": None, "peek": 60}


async def test_a_permission_that_does_not_exist_is_an_error(box: Toolbox) -> None:
    with pytest.raises(ValueError, match="cofirm"):
        await box.add_mcp(SHOP, permission="cofirm")  # type: ignore[arg-type]


async def test_a_call_ends_after_five_minutes_unless_told_otherwise(box: Toolbox) -> None:
    await box.add_mcp(SHOP, allow="add")

    assert [tool.limits.timeout for tool in box] == [300]


@pytest.mark.parametrize("trusted", [True, False])
async def test_a_server_s_word_raises_caution_and_lowers_it_only_if_trusted(
    box: Toolbox, trusted: bool
) -> None:
    await box.add_mcp(SHOP, trusted=trusted)
    peek, wipe = box.get("peek"), box.get("wipe")

    assert peek is not None and wipe is not None
    assert peek.read_only is (True if trusted else None)
    assert wipe.destructive is True


@pytest.mark.parametrize("trusted", [True, False])
async def test_what_a_server_leaves_unsaid_counts_as_the_protocol_s_default(
    box: Toolbox, trusted: bool
) -> None:
    await box.add_mcp(raw("worlds"), trusted=trusted)

    counted = {tool.name: (tool.is_destructive, tool.is_open_world) for tool in box}
    assert counted == {
        "silent": (True, True),
        "open": (True, True),
        "closed": (not trusted, not trusted),
        "reads": (not trusted, True),
    }
    assert {tool.trusted for tool in box} == {trusted}


async def test_a_read_only_toolbox_runs_nothing_that_only_says_it_is_harmless() -> None:
    async with Toolbox(permission_mode="read-only") as box:
        await box.add_mcp(SHOP)
        assert (await box.call("peek")).status is Status.DENIED


async def test_schemas_and_descriptions_are_the_server_s(box: Toolbox) -> None:
    await box.add_mcp(SHOP)
    price = box.get("price")

    assert price is not None
    assert price.description == "What an item costs."
    assert price.input_schema["required"] == ["item"]
    assert price.output_schema is not None
    assert set(price.output_schema["properties"]) == {"item", "cents"}


async def test_structured_content_is_the_value_and_the_rest_is_shown(box: Toolbox) -> None:
    await box.add_mcp(SHOP)

    outcome = await box.call("price", {"item": "tea"})

    assert outcome.value == {"item": "tea", "cents": 300}
    assert outcome.content == (Text('{\n  "item": "tea",\n  "cents": 300\n}'),)


async def test_structured_content_is_held_to_its_schema(box: Toolbox) -> None:
    await box.add_mcp(raw("schemas"))

    good = await box.call("result", {"good": True})
    bad = await box.call("result")
    none = await box.call("result", {"none": True})

    assert good.value == {"n": 1}
    assert bad.status is none.status is Status.ERROR
    assert "at n: it is required and missing" in bad.text
    assert "does not fit its output schema" in none.text
    assert (bad.value, none.value) == ({"m": 1}, "nothing structured"), "the value is kept"


async def test_an_error_of_the_server_is_not_held_to_the_schema(box: Toolbox) -> None:
    await box.add_mcp(raw("schemas"))

    outcome = await box.call("result", {"failed": True})

    assert isinstance(outcome.error, ToolFailed)
    assert outcome.text == "RemoteFailure: it broke"


async def test_results_are_taken_as_they_are_where_that_is_asked_for(box: Toolbox) -> None:
    await box.add_mcp(raw("schemas"), check_output=False)

    assert (await box.call("result")).value == {"m": 1}


async def test_past_the_toolbox_no_result_is_refused(box: Toolbox) -> None:
    await box.add_mcp(raw("schemas"))

    assert (await box.mcp["raw"].call_tool("result")).structured_content == {"m": 1}


async def test_a_value_that_a_mark_says_is_wrapped_comes_without_its_wrapping(box: Toolbox) -> None:
    count, _ = await box.add_mcp(raw("counts"))

    good, bad = await box.call("count"), await box.call("miscount")

    assert (count.output_schema, good.value) == ({"type": "integer"}, 3)
    assert (bad.status, bad.value) == (Status.ERROR, "three")
    assert [each["outputSchema"] for each in box.schemas("mcp")] == [COUNTED, COUNTED]


async def test_a_result_without_the_mark_stays_as_it_is(box: Toolbox) -> None:
    await box.add_mcp(SHOP, allow=["add"])

    assert (await box.call("add", {"a": 1})).value == {"result": 3}


async def test_schema_that_asks_for_too_much_costs_its_tool_and_no_other(
    box: Toolbox, caplog: pytest.LogCaptureFixture
) -> None:
    await box.add_mcp(raw("bombs"))
    deep: Any = "wrong"
    for _ in range(30):
        deep = {"a": deep}

    wrong = await box.call("filter", {"x": deep})
    result = await box.call("result", {})

    assert [tool.name for tool in box.all_tools()] == ["result", "filter", "echo"]
    assert "its input schema can't be used: it has more than 10,000 ways" in caplog.text
    assert "the output schema of 'result': it has more than 10,000 ways" in caplog.text
    assert [wrong.status, result.status] == [Status.ERROR, Status.OK]


async def test_every_kind_of_content_arrives(box: Toolbox) -> None:
    await box.add_mcp(raw("kinds"))

    outcome = await box.call("echo")

    assert outcome.content == (
        Text("t"),
        Image("aW1n", "image/png"),
        Audio("c25k", "audio/wav"),
        Resource("file:///a", name="a"),
        Resource("file:///b", text="inside"),
        Resource("file:///c", data="Ymlu"),
    )
    assert outcome.metadata["mcp"] == {"cost": 3}


async def test_what_a_server_notes_is_kept_of_the_attempt_that_counts(box: Toolbox) -> None:
    await box.add_mcp(raw("kinds"), limits=Limits(retries=2, retry_unsafe=True))

    assert (await box.call("echo")).metadata["mcp"] == {"cost": 3}


async def test_a_text_is_a_text(box: Toolbox) -> None:
    await box.add_mcp(SHOP)

    assert (await box.call("greet", {"context": "you"})).value == "hello you"


async def test_what_a_tool_calls_an_error_is_one(box: Toolbox) -> None:
    await box.add_mcp(SHOP)

    outcome = await box.call("fail", {"why": "because"})

    assert outcome.status is Status.ERROR
    assert "fail" in outcome.text
    with pytest.raises(RemoteFailure):
        outcome.unwrap()


async def test_resources_and_prompts_are_reached(box: Toolbox) -> None:
    await box.add_mcp(SHOP)
    shop = box.mcp["shop"]

    assert [resource["uri"] for resource in await shop.resources()] == ["shop://hours"]
    assert [t["uriTemplate"] for t in await shop.resource_templates()] == ["shop://item/{name}"]
    assert await shop.read_resource("shop://hours") == [
        Resource("shop://hours", text="9 to 5", mime_type="text/plain")
    ]
    assert [prompt["name"] for prompt in await shop.prompts()] == ["order"]
    assert await shop.get_prompt("order", {"item": "tea"}) == [("user", Text("I want tea."))]
    with pytest.raises(RemoteFailure):
        await shop.get_prompt("nothing")


async def test_a_server_without_resources_says_so(box: Toolbox) -> None:
    await box.add_mcp(raw("plain"))

    with pytest.raises(RemoteFailure, match="not found"):
        await box.mcp["raw"].resources()


async def test_a_server_is_told_in_which_trace_it_works(
    box: Toolbox, trace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Loaded here, because calls look whether it is loaded and other tests run without it.
    from opentelemetry import trace as tracing  # noqa: PLC0415
    from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415

    monkeypatch.setattr(tracing, "_TRACER_PROVIDER", TracerProvider())
    await box.add_mcp(raw("plain"), env={"RAW_TRACE": str(trace)})

    with tracing.get_tracer("test").start_as_current_span("outside") as span:
        await box.call("echo", {"a": 1})

    heard = _messages(trace)
    [call] = [message for message in heard if message["method"] == "tools/call"]
    assert f"{span.get_span_context().trace_id:032x}" in call["params"]["_meta"]["traceparent"]


def _messages(trace: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in trace.read_text().splitlines()]


@pytest.mark.parametrize(
    ("on_conflict", "names", "value"),
    [
        (None, ["add", "shop__add"], "mine"),
        ("override", ["add"], {"result": 3}),
        ("skip", ["add"], "mine"),
        ("rename", ["add", "add_2"], "mine"),
    ],
)
async def test_a_taken_name_is_treated_as_asked(
    box: Toolbox, on_conflict: ServerConflictPolicy | None, names: list[str], value: object
) -> None:
    box.add(lambda a: "mine", name="add")

    await box.add_mcp(SHOP, allow="add", on_conflict=on_conflict)

    assert box.names == names
    assert (await box.call("add", {"a": 1})).value == value
    await box.remove_mcp("shop")
    assert box.names == ([] if on_conflict == "override" else ["add"])


async def test_a_word_for_conflicts_that_is_none_is_refused(box: Toolbox) -> None:
    with pytest.raises(ValueError, match="'raise'"):
        await box.add_mcp(SHOP, on_conflict="raise")  # type: ignore[arg-type]

    assert box.names == []


async def test_tags_may_follow_from_a_tools_definition(box: Toolbox) -> None:
    await box.add_mcp(
        SHOP, allow=["add", "peek"], tags=lambda tool: ["safe"] if "annotations" in tool else []
    )

    assert box.view(tags={"safe"}).names == ["peek"]


async def test_a_server_can_be_asked_as_the_sdk_asks(box: Toolbox) -> None:
    await box.add_mcp(SHOP, allow="price")
    server = box.mcp["shop"]

    listed = [tool.name for tool in await server.list_tools()]
    result = await server.call_tool("add", {"a": 1})

    assert listed[:2] == ["add", "price"]
    assert result.structured_content == {"result": 3}
    assert (await server.call_tool("fail", {"why": "?"})).is_error
