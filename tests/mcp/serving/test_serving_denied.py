"""Tools that a client can never call are not offered to it, and still are there."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp_types import ToolListChangedNotification

from tests.mcp.clients import MODES, Mode, connected, text_of
from tests.mcp.served import served
from wieldy import Toolbox
from wieldy.mcp import server

BOTH = ["look", "wipe"]


def make_box(**options: Any) -> Toolbox:
    box = Toolbox(**options)
    box.groups.create("more", active=True)

    @box.tool(read_only=True)
    async def look(path: str = "a") -> str:
        return "looked"

    @box.tool
    async def wipe(path: str = "a") -> str:
        return "wiped"

    return box


async def listed(client: Client) -> list[str]:
    return [tool.name for tool in (await client.list_tools()).tools]


async def offered(box: Toolbox) -> list[str]:
    async with Client(server(box)) as client:
        return await listed(client)


def deny_all(box: Toolbox) -> None:
    box.rules.deny("wi*")


def deny_some(box: Toolbox) -> None:
    box.rules.deny("wipe", where={"path": "/etc/**"})


def deny_another(box: Toolbox) -> None:
    box.rules.deny("wipe", agent="somebody")


def ask_first(box: Toolbox) -> None:
    box.rules.ask("wipe")


def allow_all(box: Toolbox) -> None:
    box.rules.allow("*")
    box.rules.deny("wipe")


def switch_off(box: Toolbox) -> None:
    [wipe] = [tool for tool in box if tool.name == "wipe"]
    box.add(wipe, permission="deny", on_conflict="override")


@pytest.mark.parametrize(
    ("change", "names"),
    [
        (deny_all, ["look"]),
        (allow_all, ["look"]),
        (switch_off, ["look"]),
        (deny_some, BOTH),
        (deny_another, BOTH),
        (ask_first, BOTH),
    ],
)
async def test_what_is_denied_in_any_case_is_not_offered(change: Any, names: list[str]) -> None:
    box = make_box()
    change(box)

    assert sorted(await offered(box)) == names
    assert sorted(box.names) == BOTH
    assert sorted(each["name"] for each in box.schemas("mcp")) == BOTH


@pytest.mark.parametrize("mode", MODES)
async def test_calling_what_is_not_offered_is_denied(mode: Mode) -> None:
    box = make_box(permission_mode="read-only")
    async with Client(server(box), mode=mode) as client:
        names = await listed(client)
        given = await client.call_tool("wipe", {})

    assert names == ["look"]
    assert given.is_error and "only read-only tools may run" in text_of(given)


@pytest.mark.parametrize("mode", MODES)
async def test_a_dry_run_is_told_to_a_client_that_holds_results_to_a_schema(mode: Mode) -> None:
    box = make_box(permission_mode="dry-run")

    @box.tool
    async def count() -> dict[str, int]:
        return {"n": 1}

    async with Client(server(box), mode=mode) as client:
        for name in ("wipe", "count"):
            given = await client.call_tool(name, {})
            assert text_of(given).startswith(f"Not run: {name}")
            assert given.structured_content is None


async def test_each_caller_is_offered_what_it_can_call() -> None:
    box = make_box()
    box.rules.deny("wipe", agent="ann")
    box.rules.deny("look", session="bob")
    views = {"eve": box.view(agent="ann")}
    tokens = {name: f"{name}-token" for name in ("ann", "bob", "eve")}
    names: dict[str, list[str]] = {}
    with served(box, tokens=tokens, views=views) as url:
        for name, token in tokens.items():
            async with connected(url, token) as client:
                names[name] = await listed(client)

    assert names == {"ann": ["look"], "bob": ["wipe"], "eve": ["look"]}


@asynccontextmanager
async def hearing(box: Toolbox, mode: Mode) -> AsyncIterator[tuple[Client, asyncio.Event]]:
    """A client, and what is set when it hears that its tools have changed."""
    heard = asyncio.Event()

    async def hear(message: Any) -> None:
        if isinstance(message, ToolListChangedNotification):
            heard.set()

    async with Client(server(box), mode=mode, message_handler=hear) as client:
        await client.list_tools()
        if mode == "legacy":
            yield client, heard
            return

        async def read() -> None:
            async for _ in changes:
                heard.set()

        async with client.listen(tools_list_changed=True) as changes:
            reading = asyncio.create_task(read())
            yield client, heard
            reading.cancel()


async def until(heard: asyncio.Event, client: Client, names: list[str]) -> None:
    """Wait until a client has heard of a change after which it is offered these."""
    async with asyncio.timeout(120):
        while True:
            await heard.wait()
            heard.clear()
            if sorted(await listed(client)) == names:
                return


@pytest.mark.parametrize("mode", MODES)
async def test_a_client_hears_when_a_rule_is_made_and_taken_back(mode: Mode) -> None:
    box = make_box()
    async with hearing(box, mode) as (client, heard):
        rule = box.rules.deny("wipe")
        await until(heard, client, ["look"])
        box.rules.remove(rule)
        await until(heard, client, BOTH)
        box.restore({**box.state(), "rules": []})
        await until(heard, client, BOTH)


@pytest.mark.parametrize("mode", MODES)
async def test_a_client_hears_of_a_rule_in_the_store_wherever_it_is_made(
    mode: Mode, tmp_path: Path
) -> None:
    url = f"sqlite:///{tmp_path / 'a.db'}"
    async with (
        make_box(store=url) as box,
        make_box(store=url) as other,
        hearing(box, mode) as (client, heard),
    ):
        rule = await other.standing.deny("wipe")
        await until(heard, client, ["look"])
        await box.standing.remove(rule.id)
        await until(heard, client, BOTH)


async def test_a_client_hears_when_a_rule_has_expired(tmp_path: Path) -> None:
    async with make_box(store=f"sqlite:///{tmp_path / 'a.db'}") as box:
        await box.standing.deny("wipe", expires_in=1.5)
        async with hearing(box, "auto") as (client, heard):
            assert await listed(client) == ["look"]
            await until(heard, client, BOTH)
