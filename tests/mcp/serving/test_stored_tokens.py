"""Callers who come in with a token of the store: their roles, their view, their end."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx2
import pytest
from mcp_types import CallToolResult, ElicitResult, InputRequiredResult, InputResponses

from tests.mcp.clients import MODES, Mode, Person, connected, text_of
from tests.mcp.served import served
from wieldy import Context, Toolbox
from wieldy.mcp import serve
from wieldy.mcp.serving import callers


def make_box(store: str) -> Toolbox:
    box = Toolbox(store=store)

    @box.tool(tags="math")
    async def half(a: float) -> float:
        """Halve a number."""
        return a / 2

    @box.tool
    async def who(context: Context) -> str | None:
        """Tell who calls."""
        return context.scope.caller

    @box.tool(permission="confirm")
    async def wipe(path: str) -> str:
        """Wipe it."""
        return f"wiped {path}"

    return box


@pytest.fixture
def store(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'wieldy.db'}"


@pytest.fixture
async def desk(store: str) -> AsyncIterator[Toolbox]:
    """Another toolbox on the store, as `wieldy token` has one."""
    async with Toolbox(store=store) as box:
        yield box


@pytest.fixture
def url(store: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setattr(callers, "_FRESH_SECONDS", 0.0)
    box = make_box(store)
    with served(box, stored_tokens=True, views={"math": box.view(tags="math")}) as address:
        yield address


@pytest.mark.parametrize("mode", MODES)
async def test_a_caller_has_the_name_and_the_view_of_its_token(
    mode: Mode, url: str, desk: Toolbox
) -> None:
    ann = await desk.store.tokens.make("ann", ["call"])
    bob = await desk.store.tokens.make("bob", ["call"], view="math")

    async with connected(url, ann, mode) as client:
        assert text_of(await client.call_tool("who")) == "ann"
    async with connected(url, bob, mode) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == ["half"]


@pytest.mark.parametrize("mode", MODES)
async def test_only_who_may_approve_is_asked(mode: Mode, url: str, desk: Toolbox) -> None:
    person = Person()
    for roles in (["call"], ["call", "approve"]):
        token = await desk.store.tokens.make("-".join(roles), roles)  # type: ignore[arg-type]
        async with connected(url, token, mode, elicitation_callback=person) as client:
            result = await client.call_tool("wipe", {"path": roles[-1]})
            assert result.is_error == ("approve" not in roles)
    assert len(person.asked) == 1


async def test_who_may_no_longer_approve_can_t_use_a_question_of_before(
    url: str, desk: Toolbox
) -> None:
    tokens, arguments = desk.store.tokens, {"path": "/tmp/a"}
    first = await tokens.make("ann", ["call", "approve"])
    async with connected(url, first, elicitation_callback=Person()) as client:
        asked = await client.session.call_tool("wipe", arguments, allow_input_required=True)
        assert isinstance(asked, InputRequiredResult)
    await tokens.revoke("ann")
    async with connected(url, await tokens.make("ann", ["call"])) as client:
        yes: InputResponses = {"approve": ElicitResult(action="accept", content={"approve": True})}
        result = await client.session.call_tool(
            "wipe", arguments, request_state=asked.request_state, input_responses=yes
        )
        assert isinstance(result, CallToolResult)
        assert "you may not give it" in text_of(result)
    assert len(await desk.pending()) == 1


async def post_hello(url: str, token: str) -> httpx2.Response:
    headers = {"Authorization": f"Bearer {token}", "Accept": "application/json, text/event-stream"}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    async with httpx2.AsyncClient(headers=headers, timeout=120) as http:
        return await http.post(url, json=body)


async def test_who_is_refused_and_why(url: str, desk: Toolbox) -> None:
    tokens = desk.store.tokens
    reader = await tokens.make("reader", ["approve"])
    lost = await tokens.make("lost", ["call"], view="gone")
    gone = await tokens.make("gone", ["call"])
    await tokens.revoke("gone")

    assert (await post_hello(url, gone)).status_code == 401
    assert (await post_hello(url, "guessed")).status_code == 401
    refused = await post_hello(url, reader)
    assert (refused.status_code, "calling tools" in refused.text) == (403, True)
    async with connected(url, lost) as client:
        with pytest.raises(Exception, match="The view of this token is not here"):
            await client.list_tools()


async def test_tokens_of_a_store_need_a_store() -> None:
    with pytest.raises(ValueError, match="a toolbox with a store"):
        await serve(Toolbox(), port=0, stored_tokens=True)
