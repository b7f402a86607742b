"""Servers of older versions, and what servers ask while a call waits."""

import asyncio
import json
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from mcp.server.mcpserver import Context as ServerContext
from mcp.server.mcpserver import MCPServer
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS

from tests.mcp.conftest import ASKING, SHOP, raw
from tests.mcp.servers.asking import make_asking
from tests.mcp.waiting import until
from wieldy import Limits, Status, Toolbox
from wieldy.mcp import Patience


@pytest.mark.parametrize("version", HANDSHAKE_PROTOCOL_VERSIONS)
async def test_every_older_version_is_spoken(box: Toolbox, version: str) -> None:
    await box.add_mcp(raw("plain", version))

    assert box.mcp["raw"].protocol_version == version
    assert (await box.call("echo", {"a": 1})).value == '{"a": 1}'


async def test_a_result_that_does_not_say_that_it_is_complete_is(box: Toolbox) -> None:
    await box.add_mcp(raw("plain", "2026-07-28"))

    assert [server.protocol_version for server in box.mcp.values()] == ["2026-07-28"]
    assert (await box.call("echo", {"a": 1})).value == '{"a": 1}'


async def test_a_version_that_nobody_knows_is_an_error(box: Toolbox) -> None:
    with pytest.raises(ConnectionError, match="1999-01-01"):
        await box.add_mcp(raw("plain", "1999-01-01"))


async def test_a_question_in_flight_is_declined_unless_somebody_answers(box: Toolbox) -> None:
    await box.add_mcp(raw("plain"))

    assert json.loads((await box.call("ask")).value) == {"action": "decline"}


async def test_a_question_in_flight_is_answered_by_the_callback(box: Toolbox) -> None:
    asked: list[dict[str, Any]] = []

    async def answer(request: dict[str, Any]) -> dict[str, Any]:
        asked.append(request)
        return {"action": "accept", "content": {"size": "large"}}

    await box.add_mcp(raw("plain"), on_elicit=answer)

    outcome = await box.call("ask")

    assert json.loads(outcome.value) == {"action": "accept", "content": {"size": "large"}}
    [request] = asked
    assert request["method"] == "elicitation/create"
    assert request["params"]["message"] == "Which size?"
    assert request["params"]["requestedSchema"]["properties"] == {"size": {"type": "string"}}


async def test_a_question_that_nobody_answers_in_time_is_cancelled(box: Toolbox) -> None:
    async def think(request: dict[str, Any]) -> None:
        await asyncio.sleep(30)

    await box.add_mcp(raw("plain"), on_elicit=think, patience=Patience(answer=0.1))

    assert json.loads((await box.call("ask")).value) == {"action": "cancel"}


@pytest.mark.parametrize("given", [{"action": "perhaps"}, RuntimeError("no")])
async def test_a_callback_that_fails_fails_the_question_only(box: Toolbox, given: Any) -> None:
    def answer(request: dict[str, Any]) -> Any:
        if isinstance(given, Exception):
            raise given
        return given

    await box.add_mcp(raw("plain"), on_elicit=answer)

    assert "there is no answer" in (await box.call("ask")).value
    assert (await box.call("echo", {"a": 1})).ok


async def test_a_callback_that_blocks_holds_up_no_other_server(box: Toolbox) -> None:
    entered, leave = threading.Event(), threading.Event()

    def answer(request: dict[str, Any]) -> dict[str, Any]:
        entered.set()
        leave.wait(120)
        return {"action": "accept", "content": {"size": "s"}}

    await box.add_mcp(raw("plain"), on_elicit=answer, name="asking")
    await box.add_mcp(raw("plain"), name="other")
    asking = asyncio.create_task(box.call("ask"))
    await until(entered.is_set)

    other = await box.call("other__echo", {"a": 1})
    leave.set()

    assert other.ok
    assert "accept" in (await asking).value


async def test_a_callback_that_never_returns_keeps_nothing_from_closing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    entered, leave = threading.Event(), threading.Event()

    def answer(request: dict[str, Any]) -> None:
        entered.set()
        leave.wait(120)

    async with Toolbox() as box:
        await box.add_mcp(raw("plain"), on_elicit=answer)
        asking = asyncio.create_task(box.call("ask"))
        await until(entered.is_set)
    leave.set()

    assert (await asking).status in (Status.ERROR, Status.UNKNOWN)
    assert "left behind" in caplog.text


async def test_sampling_is_offered_only_when_somebody_answers(box: Toolbox) -> None:
    host = MCPServer("host")

    @host.tool()
    async def offered(ctx: ServerContext) -> dict[str, bool]:
        """What the client says it can do."""
        can = ctx.session.client_params.capabilities
        return {"sampling": can.sampling is not None, "elicitation": can.elicitation is not None}

    await box.add_mcp(host, name="without")
    await box.add_mcp(host, name="with", on_sample=lambda request: None)

    assert (await box.call("offered")).value == {"sampling": False, "elicitation": True}
    assert (await box.call("with__offered")).value == {"sampling": True, "elicitation": True}


@pytest.mark.parametrize("source", [raw("plain"), SHOP], ids=["plain", "shop"])
async def test_a_changed_list_of_tools_is_taken_over(box: Toolbox, source: Any) -> None:
    first = [tool.name for tool in await box.add_mcp(source)]
    caller, added = ("restock", "fresh") if source == SHOP else ("more", "extra")
    [server] = box.mcp.values()
    unchanged = box.get(caller)

    await box.call(caller)
    await until(lambda: added in box)

    # The same tool, with its validator.
    assert box.get(caller) is unchanged

    assert (await box.call(added)).ok
    gone = {"wipe"} if source == SHOP else set()
    assert box.names == [*(name for name in first if name not in gone), added]
    assert [tool.name for tool in server.tools] == box.names


async def test_a_changed_tool_is_replaced_and_a_removed_one_stays_away(box: Toolbox) -> None:
    shop = MCPServer("shop")

    def price(item: str) -> str:
        """What it costs."""
        return "1"

    def stock(item: str) -> str:
        """How many there are."""
        return "2"

    @shop.tool()
    async def change(ctx: ServerContext) -> str:
        """Change everything."""
        shop.remove_tool("price")
        price.__doc__ = "What it costs today."
        shop.add_tool(price)
        shop.add_tool(lambda: "new", name="new")
        await ctx.notify_tools_changed()
        return "changed"

    shop.add_tool(price)
    shop.add_tool(stock)
    await box.add_mcp(shop)
    before = box.get("price")
    box.remove("stock")

    await box.call("change")
    await until(lambda: "new" in box)

    after = box.get("price")
    assert before is not None and after is not None
    assert after.description == "What it costs today."
    assert after.fingerprint != before.fingerprint
    assert "stock" not in box


async def test_a_server_that_needs_input_pauses_the_call(box: Toolbox) -> None:
    await box.add_mcp(make_asking())

    receipt = await box.call("order", {"item": "shirt"})
    [parked] = await box.pending()
    outcome = await box.answer(
        receipt.call.id, {"size": {"action": "accept", "content": {"size": "large"}}}, by="ann"
    )

    assert receipt.status is Status.PENDING
    assert parked.id == receipt.call.id
    assert outcome.value == "shirt: accept, {'size': 'large'}, asked about shirt"


async def test_a_pause_is_answered_in_another_process(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/calls.db"
    async with Toolbox(store=store) as before:
        await before.add_mcp([sys.executable, ASKING])
        receipt = await before.call("order", {"item": "shirt"})
    async with Toolbox(store=store) as after:
        await after.add_mcp([sys.executable, ASKING])
        outcome = await after.answer(receipt.call.id, {"size": {"action": "decline"}}, by="ann")

    assert receipt.status is Status.PENDING
    assert outcome.value == "shirt: decline, None, asked about shirt"


async def test_an_answer_of_the_wrong_shape_is_an_error(box: Toolbox) -> None:
    await box.add_mcp(make_asking())
    receipt = await box.call("order", {"item": "shirt"})

    outcome = await box.answer(receipt.call.id, {"size": {"action": "perhaps"}}, by="ann")

    assert outcome.status is Status.ERROR
    assert "can't be sent" in outcome.text


async def test_a_server_that_is_not_ready_is_asked_again(box: Toolbox) -> None:
    await box.add_mcp(make_asking(), limits=Limits(timeout=120))

    assert (await box.call("slow")).value == "ready"
