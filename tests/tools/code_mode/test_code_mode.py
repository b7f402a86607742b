"""Programs that call tools: what they get, what they show, and what is recorded of them."""

import asyncio
from typing import Any

import pytest

from tests.tools.code_mode.conftest import Office
from wieldy import Call, CallDenied, Context, Image, Outcome, Scope, Secret, Status, Text, Toolbox
from wieldy.tools.code_mode import add_code_mode


@pytest.mark.parametrize(
    ("code", "value"),
    [
        ("await look(n=2)", 4),
        ("await look(2)", 4),
        ("return await look(n=2)", 4),
        ("x = await look(n=2)", None),
        ("", None),
        ("import asyncio\nawait asyncio.gather(*[look(n=n) for n in range(3)])", [0, 2, 4]),
        ("async def main():\n    return await look(n=1)\nawait main()", 2),
        ("import asyncio\nasync def main():\n    return await look(n=1)\nasyncio.run(main())", 2),
        ("f = look\nawait f(n=3)", 6),
        ("await look(**{'n': 3})", 6),
        ("[await look(n=n) for n in (1, 2)]", [2, 4]),
        ("try:\n    await fail()\nexcept Exception as error:\n    r = str(error)\nr", "nothing"),
        ("{'a': (1, 2), 3: {'c', 'b'}, 'd': b'x'}", {"a": [1, 2], "3": ["b", "c"], "d": "eA=="}),
        ("import datetime\ndatetime.date(2026, 1, 2)", "2026-01-02"),
        ("import asyncio\nawait asyncio.sleep(0)\n1", 1),
        ("import time\ntime.sleep(0)\n1", 1),
        ("class A:\n    def __init__(self): self.x = 1\nA()", {"x": 1}),
    ],
)
async def test_the_last_value_is_the_result(code: str, value: Any) -> None:
    office = Office()
    async with office.box:
        outcome = await office.run(code)
    assert outcome.status is Status.OK, outcome.text
    if isinstance(value, str) and value == "nothing":
        assert "nothing there" in outcome.value
    else:
        assert outcome.value == value


async def test_what_is_printed_is_shown_while_the_program_runs() -> None:
    office = Office()
    seen: list[Any] = []
    async with office.box as box:
        arguments = {"code": "print('one')\nawait look(n=1)\nprint('two')\n'three'"}
        seen.extend([(each, dict(office.ran)) async for each in box.stream("run_code", arguments)])
    assert seen[0] == (Text("one\n"), {}), "the first line came before the call was made"
    assert seen[1][0] == Text("two\n")
    assert seen[-1][0].text == "one\ntwo\nthree"


async def test_inner_calls_are_children_of_the_outer_call_and_recorded(url: str) -> None:
    office = Office(url)
    async with office.box as box:
        outcome = await box.call(
            "run_code", {"code": "await look(n=1)\nawait look(n=2)"}, session="s"
        )
        entries = await box.ledger.list(tool="look")
    children = [(each.call.id, each.call.scope) for each in reversed(entries)]
    scope = Scope(session="s", parent=outcome.call.id)
    assert children == [(f"{outcome.call.id}.0", scope), (f"{outcome.call.id}.1", scope)]


async def test_calls_of_a_gather_run_at_once() -> None:
    async with Toolbox() as box:
        meeting = asyncio.Barrier(3)

        @box.tool
        async def meet() -> int:
            """Wait for the others."""
            return await meeting.wait()

        add_code_mode(box.view())
        code = "import asyncio\nsorted(await asyncio.gather(meet(), meet(), meet()))"
        outcome = await box.call("run_code", {"code": code})
    assert outcome.value == [0, 1, 2]


async def test_chains_at_once_make_their_calls_in_the_same_order_every_time() -> None:
    office = Office()
    code = """
import asyncio
async def chain(start):
    for step in range(3):
        await look(n=start + step)
await asyncio.gather(*[chain(start) for start in (0, 10, 20, 30)])
"""
    orders = set()
    async with office.box as box:
        for _ in range(5):
            office.ran.clear()
            assert (await box.call("run_code", {"code": code})).ok
            orders.add(tuple(office.ran))
    assert len(orders) == 1


@pytest.mark.parametrize(
    ("rule", "kind"), [("deny", "PermissionError"), ("fail", "RuntimeError"), ("slow", "Timeout")]
)
async def test_a_call_that_fails_raises_what_the_program_can_catch(rule: str, kind: str) -> None:
    async with Toolbox() as box:

        @box.tool(timeout=0.01)
        async def act() -> None:
            """Act."""
            if rule == "slow":
                await asyncio.Event().wait()
            raise ValueError("no luck")

        if rule == "deny":
            box.rules.deny("act")
        add_code_mode(box.view())
        code = (
            "try:\n    await act()\nexcept Exception as e:\n    r = [type(e).__name__, str(e)]\nr"
        )
        caught = await box.call("run_code", {"code": code})
        failed = await box.call("run_code", {"code": "x = 1\nawait act()"})
        alone = await box.call("act")
    assert caught.value[0].startswith(kind)
    assert caught.value[1] == alone.text, "the message is what a model would get"
    assert failed.status is Status.ERROR
    assert "in line 2" in failed.text
    assert "await act()" in failed.text


async def test_only_tools_of_the_view_are_functions() -> None:
    async with Toolbox() as box:
        box.groups.create("off")

        @box.tool(tags="open")
        def seen() -> str:
            """Be seen."""
            return "seen"

        @box.tool
        def hidden() -> str:
            """Be hidden."""
            return "hidden"

        @box.tool(tags="open", group="off")
        def asleep() -> str:
            """Be in a group that is off."""
            return "asleep"

        @box.tool(tags="open")
        def private() -> str:
            """Be shown to somebody else."""
            return "private"

        add_code_mode(box.view(tags="open", where=lambda tool, scope: tool.name != "private"))
        tool = box.get("run_code")
        assert tool is not None
        assert tool.description.count("async def") == 1
        for name in ("hidden", "asleep", "private", "run_code"):
            outcome = await box.call("run_code", {"code": f"await {name}()"})
            assert "NameError" in outcome.text, name
        assert (await box.call("run_code", {"code": "await seen()"})).value == "seen"


async def test_a_program_has_the_functions_of_whoever_runs_it() -> None:
    async with Toolbox() as box:
        box.add(lambda: "wiped", "wipe", "Wipe.")
        box.add(lambda: "seen", "look", "Look.")
        shown = {"wipe": ("root",), "look": ("root", "ann")}
        add_code_mode(box.view(where=lambda tool, scope: scope.caller in shown[tool.name]))

        async def run(code: str, caller: str | None) -> Outcome:
            return await box.call(Call("run_code", {"code": code}, scope=Scope(caller=caller)))

        assert (await run("await wipe()", "root")).value == "wiped"
        assert (await run("await look()", "ann")).value == "seen"
        assert (await run("await find_functions('wipe')", "ann")).value == []
        for caller in ("ann", None):
            assert "name 'wipe' is not defined" in (await run("await wipe()", caller)).text


async def test_tools_that_are_added_later_are_described_and_callable() -> None:
    async with Toolbox() as box:
        add_code_mode(box.view())
        tool = box.get("run_code")
        assert tool is not None
        before = tool.fingerprint
        assert "There are no functions now." in tool.description

        @box.tool
        def late() -> int:
            """Come late."""
            return 1

        assert "async def late() -> int:" in box.schemas("openai")[0]["function"]["description"]
        assert (await box.call("run_code", {"code": "await late()"})).value == 1
        assert tool.fingerprint == before, "a paused program still finds the tool as it was"


async def test_tools_with_odd_names_and_arguments_are_called_by_python_names() -> None:
    async with Toolbox() as box:
        schema = {
            "type": "object",
            "properties": {"from": {"type": "string"}, "user-id": {"type": "integer"}},
        }
        for name in ("print", "await", "get-weather", "a.b", "a-b", "天气", "2nd", "look up"):
            box.add(lambda name=name, **sent: [name, sent], name, "Act.", input_schema=schema)
        add_code_mode(box.view())

        async def run(code: str) -> Any:
            outcome = await box.call("run_code", {"code": code})
            assert outcome.ok, outcome.text
            return outcome.value

        sent = {"from": "x", "user-id": 3}
        assert await run("await print_(from_='x', user_id=3)") == ["print", sent]
        assert await run("await await_(**{'from': 'x', 'user-id': 3})") == ["await", sent]
        assert await run("await get_weather('x', 3)") == ["get-weather", sent]
        assert await run("await 天气()") == ["天气", {}]
        assert await run("[(await _2nd())[0], (await look_up())[0]]") == ["2nd", "look up"]
        tool = box.get("run_code")
        assert tool is not None
        forms = [part.split("(")[0] for part in tool.description.split("async def ")[1:]]
        clashing = [form for form in forms if form.startswith("a_b_")]
        assert sorted([await run(f"(await {form}())[0]") for form in clashing]) == ["a-b", "a.b"]


async def test_pictures_are_noted_in_the_program_and_shown_by_the_outer_call(url: str) -> None:
    async with Toolbox(store=url) as box:

        @box.tool
        def draw() -> Image:
            """Draw."""
            return Image("aGk=", "image/png")

        @box.tool
        async def draw_and_count(context: Context) -> dict[str, int]:
            """Draw and count."""
            context.emit(Image("aGk=", "image/png"))
            return {"count": 1}

        add_code_mode(box.view())
        outcome = await box.call("run_code", {"code": "[await draw(), await draw_and_count()]"})
    assert outcome.value == ["[image image/png, 3 bytes, shown to the user]", {"count": 1}]
    assert outcome.content[:2] == (Image("aGk=", "image/png"),) * 2


async def test_secrets_that_a_tool_returns_are_covered_in_the_program(url: str) -> None:
    async with Toolbox(store=url) as box:

        def reveal(token: str) -> dict[str, str]:
            """Give the token away."""
            return {"token": token}

        box.add(reveal, presets={"token": Secret("s3cret-value")})
        add_code_mode(box.view())
        outcome = await box.call("run_code", {"code": "x = await reveal()\nprint(x)\nx"})
    assert outcome.ok
    assert "s3cret" not in outcome.text
    assert "s3cret" not in str(outcome.value)


async def test_a_program_that_read_what_comes_from_outside_says_so(url: str) -> None:
    async with Toolbox(store=url) as box:

        @box.tool(untrusted=True)
        async def read_page() -> str:
            """Read a page."""
            return "Hello"

        box.add(lambda: "Hello", "own", "Say hello.")
        add_code_mode(box.view())
        outside = await box.call("run_code", {"code": "len(await read_page())"})
        own = await box.call("run_code", {"code": "len(await own())"})
    assert outside.metadata["untrusted"]
    assert "untrusted" not in own.metadata


async def test_deps_of_the_outer_call_reach_the_inner_calls() -> None:
    async with Toolbox() as box:

        @box.tool
        async def who(context: Context) -> str:
            """Say who asks."""
            return str(context.deps)

        add_code_mode(box.view())
        outcome = await box.call("run_code", {"code": "await who()"}, deps="ann")
    assert outcome.value == "ann"


@pytest.mark.parametrize(
    "rest", ["await wait()", "while True: pass", "import time\ntime.sleep(99)"]
)
async def test_a_program_that_is_interrupted_ends_at_once(rest: str) -> None:
    async with Toolbox() as box:

        @box.tool
        async def wait() -> None:
            """Wait for ever."""
            await asyncio.Event().wait()

        add_code_mode(box.view(), seconds=120)
        call = Call("run_code", {"code": f"print('on')\n{rest}"}, id="mine")
        async for item in box.stream(call):
            if isinstance(item, Text):
                assert await box.interrupt("mine")
        assert isinstance(item, Outcome)
        assert item.status is Status.INTERRUPTED
        assert (await box.call("run_code", {"code": "1"})).value == 1


async def test_the_calls_of_an_interrupted_program_are_interrupted(url: str) -> None:
    async with Toolbox(store=url) as box:
        entered = asyncio.Event()

        @box.tool
        async def wait() -> None:
            """Wait for ever."""
            entered.set()
            await asyncio.Event().wait()

        add_code_mode(box.view())
        call = Call("run_code", {"code": "await wait()"}, id="mine")
        running = asyncio.create_task(box.call(call))
        await entered.wait()
        assert await box.interrupt("mine")
        assert (await running).status is Status.INTERRUPTED
        entries = await box.ledger.list()
    assert {entry.call.tool: entry.status for entry in entries} == {
        "run_code": Status.INTERRUPTED,
        "wait": Status.INTERRUPTED,
    }


async def test_the_sandbox_has_the_time_of_the_call_and_a_seed_of_its_own(url: str) -> None:
    office = Office(url)
    code = "import random, time\n[time.time(), time.time() == time.monotonic(), random.random()]"
    async with office.box as box:
        one, other = await office.run(code), await office.run(code)
        entry = await box.ledger.get(one.call.id)
    assert entry is not None
    assert one.value[0] == pytest.approx(entry.proposed_at, abs=0.001)
    assert one.value[2] != other.value[2]


async def test_very_many_tools_are_found_from_within_the_program() -> None:
    async with Toolbox() as box:
        for n in range(300):
            box.add(lambda n=n: n, f"invoice_{n}", f"Read the invoice number {n} of a customer.")
        view = box.view()
        named = add_code_mode(view, name="by_name", budget=2_000)
        found = add_code_mode(view, name="by_words", budget=100)
        assert "invoice_299" in named.description
        assert "There are 30" in found.description
        assert "invoice_299" not in found.description
        code = "[(await find_functions('invoice 7', 1))[0], await describe_function('invoice_8')]"
        outcome = await box.call("by_words", {"code": code})
        assert outcome.value == [
            "invoice_7(n=…): Read the invoice number 7 of a customer.",
            "async def invoice_8(*, n: Any = 8) -> Any:\n"
            '    """Read the invoice number 8 of a customer."""',
        ]


def test_numbers_are_checked_and_a_view_knows_its_box() -> None:
    box = Toolbox()
    assert box.view(tags="a").view(names="b").box is box.box is box
    for options in ({"calls": 0}, {"seconds": 0}, {"memory": True}, {"budget": -1}, {"output": 0}):
        with pytest.raises(ValueError, match="not"):
            add_code_mode(box.view(), **options)
    assert len(box) == 0


async def test_a_rule_denies_the_tool_itself_too() -> None:
    office = Office()
    async with office.box as box:
        box.rules.deny("run_code")
        outcome = await office.run("await look(n=1)")
    assert isinstance(outcome.error, CallDenied)
    assert not office.ran


async def test_in_a_dry_run_the_program_runs_and_its_calls_are_rehearsed() -> None:
    office = Office()
    async with office.box as box:
        box.set_mode("dry-run")
        outcome = await office.run("x = await look(n=1)\ny = await pay(bill='a')\n[x, y]")
    assert outcome.ok, outcome.text
    assert outcome.value[0] == 2
    assert office.ran == {"look 1": 1}
