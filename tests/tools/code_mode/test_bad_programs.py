"""Programs that go wrong: each ends with words that say what happened, and harms nothing."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.tools.code_mode.conftest import Office
from wieldy import Status, Toolbox
from wieldy.tools.code_mode import add_code_mode

# Each is a program, and words that its error has.
FAILING: dict[str, tuple[str, str]] = {
    "loops": ("while True:\n    pass", "time limit"),
    "loops and catches": (
        "while True:\n    try:\n        while True: pass\n    except: pass",
        "time",
    ),
    "allocates at once": ("x = 'a' * 10**10", "line 1: MemoryError"),
    "allocates and catches": (
        "x = []\ntry:\n    while True: x.append('a' * 999)\nexcept: 1",
        "memory",
    ),
    "takes a huge power": ("10 ** 10 ** 9", "MemoryError"),
    "recurses": ("def f(): return f()\nf()", "RecursionError"),
    "imports": ("import subprocess", "No module named 'subprocess'"),
    "imports a file": ("import numpy", "line 1"),
    "opens a file": ("open('/etc/passwd').read()", "PermissionError"),
    "writes a file": ("x = 1\nwith open('a', 'w') as f: f.write('x')", "line 2"),
    "lists a folder": ("import os\nos.listdir('/')", "PermissionError"),
    "reads the environment": ("import os\nos.environ['HOME']", "not supported"),
    "calls what is not there": ("await loook(n=1)", "Did you mean look?"),
    "calls a method": ("await look.now(n=1)", "has no attribute"),
    "runs itself": ("await run_code(code='1')", "'run_code' is not defined"),
    "has a wrong argument": ("await look(n='many')", "n"),
    "has too many arguments": ("await look(1, 2)", "takes 1 argument"),
    "has an argument twice": ("await look(1, n=2)", "more than one value"),
    "raises": ("def f():\n    raise ValueError('boo')\nf()", "line 2, in f: raise ValueError"),
    "raises an exit": ("raise SystemExit", "SystemExit"),
    "is no Python": ("x = (\ny", "SyntaxError"),
    "has a NUL byte": ("x = 1\0", "SyntaxError"),
    "has half a character": ("x = '\ud800'", "surrogates"),
    "is nested deeply": ("(" * 5_000 + "1" + ")" * 5_000, "too deeply nested"),
    "is large": ("#" * 10_000_000, "200,000 are the most"),
    "awaits nothing": ("await 3", "can't be awaited"),
    "calls without await": ("look(n=1)", "look was called without await"),
    "uses a call that is not awaited": ("x = look(n=1)\nx + 1", "line 2: TypeError"),
    "ends in a coroutine": ("async def f(): pass\nf()", "not awaited"),
    "maps a function": ("list(map(look, [1]))", "line 1"),
    "nests its value": ("x = []\nfor i in range(9_999): x = [x]\nx", "nested more than 100"),
    "nests an argument": ("x = []\nfor i in range(999): x = [x]\nawait look(n=x)", "can't be sent"),
    "sleeps": ("import asyncio\nawait asyncio.sleep(3_600)", "slept for more than"),
    "sleeps for ever": ("import time\ntime.sleep(float('inf'))", "OverflowError"),
    "sleeps for nothing known": ("import time\ntime.sleep(float('nan'))", "ValueError"),
    "describes what is not there": ("await describe_function('lok')", "Did you mean look?"),
    "finds with a number": ("await find_functions(3)", "takes text"),
}
# Each is a program, and its value.
HARMLESS: dict[str, tuple[str, Any]] = {
    "a function": ("def f(): pass\nf", "<function 'f' at 0xc>"),
    "a cycle": ("a = []\na.append(a)\na", ["[...]"]),
    "a huge integer": ("10 ** 5000", "[an integer of 16,610 bits]"),
    "an exception": ("ValueError('x')", "ValueError: x"),
    "an object": ("class A: pass\nA()", "MontyClassProxy(name='A', attributes={})"),
    "NUL in a text": ("'a\\0b'", "a\0b"),
    "half a character": ("'\\ud800'", "\ufffd"),
    "no value": ("pass", None),
    "keys of any kind": ("{(1, 2): 3, None: 4}", {"[1, 2]": 3, "None": 4}),
}


@pytest.fixture
async def office() -> AsyncIterator[Office]:
    """A sandbox with limits that are reached soon."""
    office = Office(seconds=0.3, memory=20_000_000, calls=50)
    async with office.box:
        yield office


@pytest.mark.parametrize("name", FAILING)
async def test_a_program_that_goes_wrong_says_how(office: Office, name: str) -> None:
    office.ran.clear()
    code, words = FAILING[name]
    outcome = await office.run(code)
    assert outcome.status is Status.ERROR
    assert words in outcome.text
    assert len(outcome.text) < 5_000
    assert not office.ran
    assert (await office.run("await look(n=1)")).value == 2


@pytest.mark.parametrize("name", HARMLESS)
async def test_a_value_that_is_no_json_is_shown_somehow(office: Office, name: str) -> None:
    code, value = HARMLESS[name]
    outcome = await office.run(code)
    assert outcome.status is Status.OK, outcome.text
    assert outcome.value == value


@pytest.mark.parametrize(
    "code",
    [
        "for n in range(10_000): await look(n=n)",
        "import asyncio\nawait asyncio.gather(*[look(n=n) for n in range(10_000)])",
        "for n in range(10_000):\n    try: await look(n=n)\n    except: pass",
    ],
)
async def test_more_calls_than_the_limit_are_refused(office: Office, code: str) -> None:
    office.ran.clear()
    outcome = await office.run(code)
    assert "more than 50 calls" in outcome.text
    assert office.ran.total() <= 50


async def test_a_thousand_calls_at_once_are_made() -> None:
    office = Office()
    async with office.box:
        code = "import asyncio\nsum(await asyncio.gather(*[look(n=n) for n in range(1_000)]))"
        assert (await office.run(code)).value == 999_000
    assert office.ran.total() == 1_000


async def test_calls_that_were_not_made_are_not_counted(office: Office) -> None:
    office.ran.clear()
    code = "import asyncio\nawait asyncio.gather(look(n=1), look(n=2), return_exceptions=True)"
    outcome = await office.run(code)
    assert outcome.status is Status.ERROR
    assert "had been made" not in outcome.text
    assert not office.ran


async def test_names_that_are_not_there_can_be_tried_so_often_and_no_more() -> None:
    office = Office(calls=10)
    async with office.box:
        code = "for n in range(10**6):\n    try: await nothing()\n    except NameError: pass"
        assert (await office.run(code)).status is Status.ERROR


async def test_output_is_cut_at_its_limit() -> None:
    office = Office(output=100)
    async with office.box:
        outcome = await office.run("for n in range(1_000): print('x' * 9)\n1")
    assert outcome.value == 1
    assert "cut" in outcome.text
    assert len(outcome.text) < 300


async def test_what_tools_return_and_say_may_be_anything() -> None:
    async with Toolbox() as box:
        deep: list[Any] = []
        for _ in range(500):
            deep = [deep]
        values = ["\ud800", {"a\ud800": 1}, 10**5000, float("nan"), deep, object(), {1, 2}, b"x"]

        @box.tool
        def give(n: int) -> Any:
            """Give something."""
            return values[n]

        @box.tool
        def fail() -> None:
            """Fail with odd words."""
            raise ValueError("a\ud800\0b")

        add_code_mode(box.view())
        for n in range(len(values)):
            outcome = await box.call("run_code", {"code": f"type(await give(n={n})).__name__"})
            assert outcome.ok, outcome.text
        outcome = await box.call("run_code", {"code": "await fail()"})
        assert "ValueError" in outcome.text
