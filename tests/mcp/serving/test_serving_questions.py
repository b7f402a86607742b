"""A call that waits for a person, as clients of both eras meet it."""

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, MCPError
from mcp_types import (
    CallToolResult,
    CreateMessageResult,
    ElicitResult,
    InputRequiredResult,
    ListRootsResult,
    Root,
    TextContent,
)
from pydantic import FileUrl

import wieldy.mcp
from tests.mcp.clients import MODES, Mode, Person, soon, text_of
from wieldy import CallsNeeded, Context, InputNeeded, Outcome, Secret, Status, Toolbox
from wieldy.tools.code_mode import add_code_mode


class Shop:
    """A box with a tool that needs approval, and what has been wiped."""

    def __init__(self, **options: Any) -> None:
        self.wiped: list[str] = []
        self.box = Toolbox(**options)
        self.box.add(self.wipe, permission="confirm")

    async def wipe(self, path: str) -> str:
        """Wipe it."""
        self.wiped.append(path)
        return f"wiped {path}"


@pytest.fixture(params=["memory", "store"])
def shop(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Shop]:
    store = None if request.param == "memory" else f"sqlite:///{tmp_path / 'wieldy.db'}"
    yield Shop(store=store)


async def first(client: Client, tool: str, arguments: dict[str, Any]) -> InputRequiredResult:
    """Call a tool that asks, and give its question."""
    asked = await client.session.call_tool(tool, arguments, allow_input_required=True)
    assert isinstance(asked, InputRequiredResult)
    return asked


async def again(
    client: Client, tool: str, arguments: dict[str, Any], state: str | None, **answers: Any
) -> CallToolResult | InputRequiredResult:
    """The same call once more, with answers."""
    return await client.session.call_tool(
        tool,
        arguments,
        request_state=state,
        input_responses=answers or None,
        allow_input_required=True,
    )


def assert_waits(result: Any, call_id: str) -> None:
    """The client is told that its call waits for a person, and not how one decides."""
    said = text_of(result)
    assert call_id in said and "has to agree" in said
    assert not re.search(r"wieldy \w|box\.|/api/", said)


YES = ElicitResult(action="accept", content={"approve": True})
NO = ElicitResult(action="decline")


@pytest.mark.parametrize("mode", MODES)
async def test_the_user_is_asked_and_the_call_runs_once(mode: Mode, shop: Shop) -> None:
    person = Person()
    async with (
        shop.box,
        Client(wieldy.mcp.server(shop.box), mode=mode, elicitation_callback=person) as client,
    ):
        result = await client.call_tool("wipe", {"path": "/tmp/a"})
        assert await shop.box.pending() == []

    assert (text_of(result), result.is_error) == ("wiped /tmp/a", False)
    assert shop.wiped == ["/tmp/a"]
    (asked,) = person.asked
    assert "wipe" in asked and "/tmp/a" in asked and "the tool asks for confirmation" in asked


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("how", ["decline", "accept"])
async def test_the_user_says_no_and_the_call_never_runs(mode: Mode, how: Any, shop: Shop) -> None:
    person = Person(approve=False, reason="not today")
    person.action = how
    server = wieldy.mcp.server(shop.box)
    async with shop.box, Client(server, mode=mode, elicitation_callback=person) as client:
        result = await client.call_tool("wipe", {"path": "a"})
        assert await shop.box.pending() == []

    assert result.is_error and shop.wiped == []
    expected = "not today" if how == "accept" else "a person said no"
    assert text_of(result) == f"The call of wipe was denied: {expected}"


@pytest.mark.parametrize("mode", MODES)
async def test_a_closed_question_leaves_the_call_waiting(mode: Mode, shop: Shop) -> None:
    person = Person()
    person.action = "cancel"
    server = wieldy.mcp.server(shop.box)
    async with shop.box, Client(server, mode=mode, elicitation_callback=person) as client:
        result = await client.call_tool("wipe", {"path": "a"})
        (parked,) = await shop.box.pending()

    assert result.is_error
    assert_waits(result, parked.id)


@pytest.mark.parametrize("mode", MODES)
async def test_a_client_that_can_not_ask_is_told_the_call_id(mode: Mode, shop: Shop) -> None:
    async with shop.box, Client(wieldy.mcp.server(shop.box), mode=mode) as client:
        result = await client.call_tool("wipe", {"path": "a"})
        (parked,) = await shop.box.pending()
        assert_waits(result, parked.id)
        assert result.is_error
        assert (await shop.box.approve(parked.id)).value == "wiped a"


@pytest.mark.parametrize("mode", MODES)
async def test_a_client_may_be_kept_from_approving_its_own_calls(mode: Mode, shop: Shop) -> None:
    person = Person()
    server = wieldy.mcp.server(shop.box, elicitation=False)
    async with shop.box, Client(server, mode=mode, elicitation_callback=person) as client:
        result = await client.call_tool("wipe", {"path": "a"})
        (parked,) = await shop.box.pending()

    assert_waits(result, parked.id)
    assert person.asked == [] and shop.wiped == []


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", ["own", "stored", "exported"])
async def test_a_rule_wants_more_than_an_answer_in_the_client(
    mode: Mode, kind: str, tmp_path: Path
) -> None:
    shop, person = Shop(store=f"sqlite:///{tmp_path / 'wieldy.db'}"), Person()
    if kind == "stored":
        await shop.box.store.standing.ask("wipe", elicitation=False, by="ann")
    elif kind == "exported":
        other = Toolbox()
        other.rules.ask("wipe", elicitation=False)
        shop.box.restore(other.state())
    else:
        shop.box.rules.ask("wipe", elicitation=False)
    server = wieldy.mcp.server(shop.box)
    async with shop.box, Client(server, mode=mode, elicitation_callback=person) as client:
        result = await client.call_tool("wipe", {"path": "a"})
        (parked,) = await shop.box.pending()
        assert_waits(result, parked.id)
        assert (person.asked, shop.wiped) == ([], [])
        assert (await shop.box.approve(parked.id, by="ann")).value == "wiped a"


async def test_an_older_client_that_does_not_answer_in_time_is_told_so(shop: Shop) -> None:
    async def silent(context: Any, params: Any) -> ElicitResult:
        await asyncio.Event().wait()
        raise AssertionError

    server = wieldy.mcp.server(shop.box, patience=0.05)
    async with (
        shop.box,
        Client(server, mode="legacy", elicitation_callback=silent) as client,
    ):
        result = await client.call_tool("wipe", {"path": "a"})
        (parked,) = await shop.box.pending()

    assert "nobody answered in time" in text_of(result) and parked.id in text_of(result)


async def test_an_answer_that_is_sent_again_runs_nothing_twice(shop: Shop) -> None:
    call = "wipe", {"path": "a"}
    server = wieldy.mcp.server(shop.box)
    async with shop.box, Client(server, elicitation_callback=Person()) as client:
        asked = await first(client, *call)
        answers = await asyncio.gather(
            *(again(client, *call, asked.request_state, approve=YES) for _ in range(20))
        )
        late = await again(client, *call, asked.request_state, approve=YES)
        other = await again(client, *call, asked.request_state, approve=NO)

    assert shop.wiped == ["a"]
    for each in (*answers, late):
        assert isinstance(each, CallToolResult) and text_of(each) == "wiped a"
    assert isinstance(other, CallToolResult) and other.is_error
    assert "was already approved" in text_of(other)


async def test_a_missing_answer_is_asked_for_again_and_extra_ones_are_ignored(shop: Shop) -> None:
    call = "wipe", {"path": "a"}
    server = wieldy.mcp.server(shop.box)
    async with shop.box, Client(server, elicitation_callback=Person()) as client:
        asked = await first(client, *call)
        once_more = await again(client, *call, asked.request_state, something=YES)
        assert isinstance(once_more, InputRequiredResult)
        assert once_more.input_requests == asked.input_requests
        result = await again(client, *call, once_more.request_state, approve=YES, more=YES)
        assert isinstance(result, CallToolResult)

    assert text_of(result) == "wiped a" and shop.wiped == ["a"]


async def test_nobody_approves_before_the_question(shop: Shop) -> None:
    server = wieldy.mcp.server(shop.box)
    async with shop.box, Client(server, elicitation_callback=Person()) as client:
        asked = await again(client, "wipe", {"path": "a"}, None, approve=YES)

    assert isinstance(asked, InputRequiredResult) and shop.wiped == []


async def test_a_forged_or_foreign_state_is_refused(shop: Shop) -> None:
    call = "wipe", {"path": "a"}
    server, other = wieldy.mcp.server(shop.box), wieldy.mcp.server(shop.box)
    async with (
        shop.box,
        Client(server, elicitation_callback=Person()) as client,
        Client(other, elicitation_callback=Person()) as stranger,
    ):
        asked = await first(client, *call)
        state = asked.request_state or ""
        (parked,) = await shop.box.pending()
        plain = f'["approve", "{parked.id}", "wipe", {{"approve": {{}}}}]'
        for forged in (plain, "", "v1.", state[:-2], state[:-1] + "!", "v1." + state, "x" * 9999):
            with pytest.raises(MCPError, match="requestState"):
                await again(client, *call, forged, approve=YES)
        with pytest.raises(MCPError, match="requestState"):
            await again(client, "wipe", {"path": "b"}, state, approve=YES)
        with pytest.raises(MCPError, match="requestState"):
            await again(stranger, *call, state, approve=YES)
        assert shop.wiped == []


async def test_servers_that_share_a_secret_go_on_with_each_others_calls(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path / 'wieldy.db'}"
    call = "wipe", {"path": "a"}
    one, other = Shop(store=store), Shop(store=store)
    async with one.box, other.box:
        secret = b"0123456789abcdef" * 2
        async with Client(
            wieldy.mcp.server(one.box, secret=secret), elicitation_callback=Person()
        ) as client:
            asked = await first(client, *call)
        async with Client(
            wieldy.mcp.server(other.box, secret=secret), elicitation_callback=Person()
        ) as client:
            result = await again(client, *call, asked.request_state, approve=YES)

    assert isinstance(result, CallToolResult) and text_of(result) == "wiped a"
    assert (one.wiped, other.wiped) == ([], ["a"])


async def test_a_call_that_expired_meanwhile_is_denied() -> None:
    expired = asyncio.Event()

    def told(outcome: Outcome) -> None:
        if outcome.status is Status.DENIED:
            expired.set()

    brief = Shop(approval_ttl=0.02, observers=[told])
    call = "wipe", {"path": "a"}
    server = wieldy.mcp.server(brief.box)
    async with Client(server, elicitation_callback=Person()) as client:
        asked = await first(client, *call)
        await soon(expired)
        result = await again(client, *call, asked.request_state, approve=YES)

    assert isinstance(result, CallToolResult) and result.is_error
    assert brief.wiped == []


async def test_secrets_are_covered_in_the_question() -> None:
    box = Toolbox()

    @box.tool(permission="confirm")
    def login(user: str, password: Secret) -> str:
        """Log in."""
        return f"hello {user}"

    person = Person()
    async with Client(wieldy.mcp.server(box), elicitation_callback=person) as client:
        result = await client.call_tool("login", {"user": "ann", "password": "correct horse"})

    assert text_of(result) == "hello ann"
    assert "ann" in person.asked[0] and "correct horse" not in person.asked[0]


async def test_a_huge_argument_is_shown_in_part(shop: Shop) -> None:
    person = Person()
    server = wieldy.mcp.server(shop.box)
    async with shop.box, Client(server, elicitation_callback=person) as client:
        await client.call_tool("wipe", {"path": "x" * 1_000_000})

    assert shop.wiped == ["x" * 1_000_000]
    assert len(person.asked[0]) < 5000


# A tool that asks by itself.


def asking_box() -> Toolbox:
    box = Toolbox()

    @box.tool
    async def book(city: str, context: Context) -> str:
        """Book a room, after two questions of the same name."""
        said = context.answers["answer"]["content"] if context.answers else {}
        if context.answers is None:
            raise InputNeeded.form("How many nights?", state=[])
        if len(context.state) < 1:
            raise InputNeeded.form("Which floor?", state=[*context.state, said["n"]])
        return f"{city}: {[*context.state, said['n']]}"

    @box.tool
    async def everything(context: Context) -> str:
        """Ask for all that can be asked for."""
        if context.answers is None:
            message = {"role": "user", "content": {"type": "text", "text": "Hi"}}
            raise InputNeeded(
                {
                    "model": {
                        "method": "sampling/createMessage",
                        "params": {"messages": [message], "maxTokens": 5},
                    },
                    "roots": {"method": "roots/list"},
                }
            )
        model, roots = context.answers["model"], context.answers["roots"]
        return f"{model['content']['text']} {roots['roots'][0]['uri']}"

    @box.tool
    async def strange() -> None:
        """Ask for what there is not."""
        raise InputNeeded({"x": {"method": "no/such", "params": {}}})

    return box


@pytest.mark.parametrize("mode", MODES)
async def test_what_a_tool_asks_is_passed_on_and_so_are_the_answers(mode: Mode) -> None:
    person = Person(n=3)
    async with Client(
        wieldy.mcp.server(asking_box()), mode=mode, elicitation_callback=person
    ) as client:
        result = await client.call_tool("book", {"city": "Oslo"})

    assert text_of(result) == "Oslo: [3, 3]"
    assert person.asked == ["How many nights?", "Which floor?"]


@pytest.mark.parametrize("mode", MODES)
async def test_models_and_folders_can_be_asked_for_too(mode: Mode) -> None:
    async def sample(context: Any, params: Any) -> CreateMessageResult:
        return CreateMessageResult(
            role="assistant", content=TextContent(type="text", text="Hello"), model="m"
        )

    async def roots(context: Any) -> ListRootsResult:
        return ListRootsResult(roots=[Root(uri=FileUrl("file:///work"))])

    async with Client(
        wieldy.mcp.server(asking_box()),
        mode=mode,
        sampling_callback=sample,
        list_roots_callback=roots,
    ) as client:
        result = await client.call_tool("everything")

    assert text_of(result) == "Hello file:///work"


async def test_an_answer_that_is_sent_again_is_not_taken_for_the_next_one() -> None:
    call = "book", {"city": "Oslo"}
    box = asking_box()
    async with Client(wieldy.mcp.server(box), elicitation_callback=Person()) as client:
        nights = await first(client, *call)
        answer = ElicitResult(action="accept", content={"n": 2})
        floor = await again(client, *call, nights.request_state, answer=answer)
        repeated = await again(client, *call, nights.request_state, answer=answer)
        assert isinstance(floor, InputRequiredResult) and isinstance(repeated, InputRequiredResult)
        assert repeated.input_requests == floor.input_requests
        ground = ElicitResult(action="accept", content={"n": 0})
        result = await again(client, *call, repeated.request_state, answer=ground)

    assert isinstance(result, CallToolResult) and text_of(result) == "Oslo: [2, 0]"


async def test_a_client_without_the_capability_gets_the_protocols_error() -> None:
    box = asking_box()
    async with Client(wieldy.mcp.server(box)) as client:
        with pytest.raises(MCPError, match="has not declared") as raised:
            await client.call_tool("everything")
        with pytest.raises(MCPError, match="has not declared"):
            await client.call_tool("strange")
    assert raised.value.error.code == -32021
    assert raised.value.error.data == {"requiredCapabilities": {"sampling": {}, "roots": {}}}


async def test_an_older_client_without_the_capability_is_told_in_words() -> None:
    box = asking_box()
    async with Client(wieldy.mcp.server(box), mode="legacy") as client:
        result = await client.call_tool("book", {"city": "Oslo"})
        (parked,) = await box.pending()

    assert result.is_error
    assert f"waits for answers as {parked.id} (How many nights?)." in text_of(result)


async def test_a_decision_from_elsewhere_counts(shop: Shop) -> None:
    asked, decided = asyncio.Event(), asyncio.Event()

    async def slow(context: Any, params: Any) -> ElicitResult:
        asked.set()
        await soon(decided)
        return YES

    server = wieldy.mcp.server(shop.box)
    async with (
        shop.box,
        Client(server, mode="legacy", elicitation_callback=slow) as client,
    ):
        calling = asyncio.create_task(client.call_tool("wipe", {"path": "a"}))
        await soon(asked)
        (parked,) = await shop.box.pending()
        await shop.box.approve(parked.id, by="reviewer")
        decided.set()
        assert text_of(await calling) == "wiped a"
    assert shop.wiped == ["a"]


@pytest.mark.parametrize("verdict", ["approve", "deny"])
async def test_an_older_client_that_waits_hears_what_is_decided_elsewhere(
    shop: Shop, verdict: str
) -> None:
    asked, never = asyncio.Event(), asyncio.Event()

    async def silent(context: Any, params: Any) -> ElicitResult:
        asked.set()
        await never.wait()
        return NO

    server = wieldy.mcp.server(shop.box)
    async with shop.box, Client(server, mode="legacy", elicitation_callback=silent) as client:
        waiting = asyncio.create_task(client.call_tool("wipe", {"path": "a"}))
        await soon(asked)
        (parked,) = await shop.box.pending()
        await getattr(shop.box, verdict)(parked.id, by="ann")
        result = await asyncio.wait_for(waiting, 120)

    said = {"approve": "wiped a", "deny": "The call of wipe was denied: a person said no"}
    assert (text_of(result), result.is_error) == (said[verdict], verdict == "deny")
    assert shop.wiped == (["a"] if verdict == "approve" else [])


async def test_a_server_runs_once_what_a_process_without_the_tool_approves(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path / 'wieldy.db'}"
    one, two, desk = Shop(store=store), Shop(store=store), Toolbox(store=store)
    async with (
        one.box,
        two.box,
        desk,
        Client(wieldy.mcp.server(one.box)) as client,
        Client(wieldy.mcp.server(two.box)),
    ):
        for path in "abcde":
            assert (await client.call_tool("wipe", {"path": path})).is_error
        waiting = [parked.id for parked in await desk.pending()]
        for call_id in waiting:
            receipt = await desk.approve(call_id, by="ann")
            assert receipt.status is Status.PENDING
        async with asyncio.timeout(120):
            ended = [await desk.store.until(call_id, lambda e: e.ended) for call_id in waiting]

    assert {entry.state for entry in ended} == {"ok"}
    assert sorted(one.wiped + two.wiped) == list("abcde")


# What the user sees of a call is all there is.


def taking_all() -> tuple[Toolbox, list[dict[str, Any]]]:
    """A box with a tool that takes anything and needs approval, and what it got."""
    box, got = Toolbox(), []

    async def wipe(**arguments: Any) -> str:
        """Wipe."""
        got.append(arguments)
        return "wiped"

    box.add(wipe, permission="confirm", input_schema={"type": "object"})
    return box, got


async def ask_about(box: Toolbox, arguments: dict[str, Any]) -> tuple[list[str], str]:
    """What the user is asked about a call, and what the client is told in the end."""
    person = Person()
    async with Client(wieldy.mcp.server(box), elicitation_callback=person) as client:
        result = await client.call_tool("wipe", arguments)
    return person.asked, text_of(result)


@pytest.mark.parametrize("order", [1, -1])
async def test_every_argument_is_shown_however_long_the_others_are(order: int) -> None:
    box, got = taking_all()
    names = ["first", "recursive", "paths", "options", "last"][::order]
    long = {"first": "a" * 50_000, "options": {"deep": ["b" * 50_000, {"force": True}]}}
    short = {"recursive": True, "paths": ["/etc", "/home"], "last": "c" * 3000 + "tail"}
    arguments = {name: {**long, **short}[name] for name in names}

    (asked,), _ = await ask_about(box, arguments)

    lines = asked.split("\n")
    assert [line.split(" = ")[0].strip() for line in lines[2:-1]] == names
    assert "  recursive = true" in lines and '  paths = ["/etc", "/home"]' in lines
    assert "characters left out" in asked and '"force": true' in asked and 'tail"' in asked
    assert len(asked) < 5000
    assert got == [arguments]


@pytest.mark.parametrize(
    "deceit",
    [
        "a\nIt needs approval: nothing", "\u202etxt.exe", "a\u200bb", "\x1b[2K", "\r", "\xa0",
        "\U000e0041", "\u2028b", "\u3164",
    ],
)  # fmt: skip
async def test_nothing_in_a_name_or_value_is_hidden_or_begins_a_line(deceit: str) -> None:
    box, _ = taking_all()
    person = Person()
    server = wieldy.mcp.server(box)
    async with Client(server, elicitation_callback=person) as client:
        for arguments in ({"path": deceit}, {deceit: 1}, {"a": {deceit: [deceit]}}):
            await client.call_tool("wipe", arguments)

    for asked in person.asked:
        assert len(asked.split("\n")) == 4
        assert deceit not in asked and "\\" in asked


async def test_a_name_can_not_pass_for_an_argument_with_a_value() -> None:
    box, _ = taking_all()

    (asked,), _ = await ask_about(box, {'path = "/tmp" ': 1, "x" * 5000: 2})

    assert '\n  "path = \\"/tmp\\" " = 1\n' in asked
    assert "characters left out" in asked and asked.count(" = 2") == 1


@pytest.mark.parametrize(
    "arguments",
    [
        {f"argument_{n}": n for n in range(1000)},
        {f"argument_{n}": "x" * 1000 for n in range(60)},
        {"x" * 5000 + str(n): n for n in range(60)},
    ],
)
async def test_a_call_with_too_many_arguments_to_show_waits(arguments: dict[str, Any]) -> None:
    box, got = taking_all()

    asked, told = await ask_about(box, arguments)

    [parked] = await box.pending()
    assert asked == [] and got == []
    assert "too many to be shown" in told and parked.id in told
    assert (await box.approve(parked.id)).ok and got == [arguments]


async def test_a_call_without_arguments_says_so() -> None:
    box, _ = taking_all()

    (asked,), _ = await ask_about(box, {})

    assert asked.split("\n")[:2] == ["May wipe run?", "It has no arguments."]


async def test_a_preset_that_is_secret_is_covered_in_the_question() -> None:
    box = Toolbox()

    @box.tool(permission="confirm", presets={"token": "a-long-token"})
    async def wipe(path: str, token: str) -> str:
        return "wiped"

    (asked,), _ = await ask_about(box, {"path": "/a-long-token/b"})

    assert "a-long-token" not in asked and '"/**********/b"' in asked


@pytest.mark.parametrize("mode", MODES)
async def test_the_words_of_a_tools_question_hide_nothing(mode: Mode) -> None:
    box = Toolbox()

    @box.tool
    async def book(context: Context) -> str:
        if context.answers is None:
            raise InputNeeded.form("Really?\nYes \u202eno\x1b[2K")
        return "booked"

    person = Person(n=1)
    async with Client(wieldy.mcp.server(box), mode=mode, elicitation_callback=person) as client:
        result = await client.call_tool("book", {})

    assert text_of(result) == "booked"
    assert person.asked == ["Really?\nYes \\u202eno\\x1b[2K"]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("length", [100_000, 5_000_000])
async def test_a_question_has_the_bound_of_a_result(mode: Mode, length: int) -> None:
    box = Toolbox()

    @box.tool
    async def book(context: Context) -> str:
        if context.answers is None:
            raise InputNeeded.form("?" * length)
        return "booked"

    person = Person(n=1)
    async with Client(wieldy.mcp.server(box), mode=mode, elicitation_callback=person) as client:
        result = await client.call_tool("book", {})

    [asked] = person.asked
    assert text_of(result) == "booked"
    assert len(asked) <= 100_000
    assert (asked == "?" * length) is (length == 100_000)


@pytest.mark.parametrize("mode", MODES)
async def test_the_user_is_asked_about_each_call_that_the_client_s_call_waits_for(
    mode: Mode, shop: Shop
) -> None:
    @shop.box.tool
    async def tidy(paths: list[str], context: Context) -> str:
        """Wipe several."""
        if context.answers is None:
            raise CallsNeeded([await context.call("wipe", {"path": each}) for each in paths])
        return ", ".join(context.answers.values())

    person = Person()
    async with (
        shop.box,
        Client(wieldy.mcp.server(shop.box), mode=mode, elicitation_callback=person) as client,
    ):
        result = await client.call_tool("tidy", {"paths": ["/tmp/a", "/tmp/b"]})

    assert (text_of(result), result.is_error) == ("ok, ok", False)
    assert shop.wiped == ["/tmp/a", "/tmp/b"]
    assert ["/tmp/a" in person.asked[0], "/tmp/b" in person.asked[1]] == [True, True]


async def test_a_client_that_can_t_ask_is_told_which_calls_are_waited_for(shop: Shop) -> None:
    @shop.box.tool
    async def tidy(context: Context) -> str:
        """Wipe."""
        raise CallsNeeded([await context.call("wipe", {"path": "/tmp/a"})])

    async with shop.box, Client(wieldy.mcp.server(shop.box)) as client:
        result = await client.call_tool("tidy", {})
        (parked,) = await shop.box.pending()

    assert result.is_error
    assert_waits(result, parked.id)


@pytest.mark.parametrize("mode", MODES)
async def test_the_user_is_asked_about_the_calls_of_a_program(mode: Mode, shop: Shop) -> None:
    tool = add_code_mode(shop.box.view(names="wipe"))
    server = wieldy.mcp.server(shop.box, view=shop.box.view(names=tool.name))
    person = Person()
    code = "[await wipe(path=path) for path in ('/tmp/a', '/tmp/b')]"
    async with shop.box, Client(server, mode=mode, elicitation_callback=person) as client:
        shown = [each.name for each in (await client.list_tools()).tools]
        result = await client.call_tool("run_code", {"code": code})
        with pytest.raises(MCPError, match="no tool named 'wipe'"):
            await client.call_tool("wipe", {"path": "/tmp/c"})

    assert (text_of(result), result.is_error) == ('["wiped /tmp/a","wiped /tmp/b"]', False)
    assert ["/tmp/a" in person.asked[0], "/tmp/b" in person.asked[1]] == [True, True]
    assert (shown, shop.wiped) == (["run_code"], ["/tmp/a", "/tmp/b"])
