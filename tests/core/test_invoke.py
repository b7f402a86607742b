"""Running a tool's function, whatever kind it is, and what it may raise or give."""

import asyncio
import functools
import threading
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from typing import Any

import pytest

from wieldy import Context, DefinitionError, Image, Outcome, Status, Text, Toolbox, ToolFailed
from wieldy.core.choices import Isolation

SOON = 120.0


def original(outcome: Outcome) -> BaseException:
    assert outcome.status is Status.ERROR
    assert isinstance(outcome.error, ToolFailed)
    return outcome.error.original


async def call(function: Callable[..., Any], arguments: Any = None, **options: Any) -> Outcome:
    box = Toolbox()
    tool = box.add(function, **options)
    return await asyncio.wait_for(box.call(tool.name, arguments), SOON)


class Greeter:
    word = "hello"

    def greet(self, name: str) -> str:
        return f"{self.word} {name}"

    async def greet_later(self, name: str) -> str:
        return f"{self.word} {name}"

    @classmethod
    def of_class(cls, name: str) -> str:
        return f"{cls.word} {name}"

    @staticmethod
    def of_none(name: str) -> str:
        return f"hello {name}"

    def __call__(self, name: str) -> str:
        return f"{self.word} {name}"


class LaterGreeter:
    async def __call__(self, name: str) -> str:
        return f"hello {name}"


async def greet(name: str, word: str = "hello") -> str:
    return f"{word} {name}"


def greet_positionally(word: str, /, name: str) -> str:
    return f"{word} {name}"


def greet_in_vain(name: str) -> Any:
    return greet(name)


async def greet_twice_removed(name: str) -> Any:
    return greet(name)


@pytest.mark.parametrize(
    "function",
    [
        Greeter().greet,
        Greeter().greet_later,
        Greeter.of_class,
        Greeter.of_none,
        Greeter(),
        LaterGreeter(),
        greet,
        functools.partial(greet, word="hello"),
        functools.partial(functools.partial(greet), word="hello"),
        functools.partial(Greeter.of_none),
        greet_in_vain,
    ],
)
@pytest.mark.parametrize("isolation", [None, "inline"])
async def test_every_kind_of_callable_gives_its_value(
    function: Callable[..., Any], isolation: str | None
) -> None:
    outcome = await call(function, {"name": "ann"}, name="greet", isolation=isolation)

    assert outcome.value == "hello ann"


async def test_a_gap_among_positional_only_parameters_keeps_its_default() -> None:
    def act(a: int = 1, b: int = 2, c: int = 3, /) -> list[int]:
        return [a, b, c]

    for validation in ("repair", "describe"):
        box = Toolbox(validation=validation)
        box.add(act)
        assert (await box.call("act", {"b": 5})).value == [1, 5, 3]
        assert (await box.call("act", {})).value == [1, 2, 3]


async def test_positional_only_parameters_are_passed_by_position() -> None:
    outcome = await call(greet_positionally, {"word": "hi", "name": "ann"})

    assert outcome.value == "hi ann"


async def yields_later() -> AsyncIterator[Any]:
    yield "a"
    yield {"n": 1}
    yield Image(b"x")


def yields() -> Iterator[Any]:
    yield "a"
    yield {"n": 1}
    yield Image(b"x")


async def gives_yields() -> Any:
    return yields()


async def gives_yields_later() -> Any:
    return yields_later()


def gives_yields_later_from_a_thread() -> Any:
    return yields_later()


@pytest.mark.parametrize(
    "function",
    [yields, yields_later, gives_yields, gives_yields_later, gives_yields_later_from_a_thread],
)
@pytest.mark.parametrize("isolation", [None, "inline"])
async def test_generators_give_the_list_of_what_they_yielded_and_every_block(
    function: Callable[..., Any], isolation: str | None
) -> None:
    outcome = await call(function, isolation=isolation)

    assert outcome.value == ["a", {"n": 1}, Image(b"x")]
    assert outcome.content == (Text("a"), Text('{"n":1}'), Image(b"x"))


@pytest.mark.parametrize("isolation", [None, "inline"])
async def test_a_generator_that_returns_gives_that_as_its_value(isolation: str | None) -> None:
    def counted() -> Generator[str, None, int]:
        yield "a"
        yield "b"
        return 2

    outcome = await call(counted, isolation=isolation)

    assert outcome.value == 2
    assert outcome.content == (Text("a"), Text("b"))


async def test_an_empty_generator_gives_an_empty_list_and_no_content() -> None:
    async def nothing() -> AsyncIterator[str]:
        for item in "":
            yield item

    outcome = await call(nothing)

    assert (outcome.value, outcome.content) == ([], ())


@pytest.mark.parametrize("isolation", [None, "inline"])
async def test_a_generator_that_fails_keeps_what_it_showed(isolation: str | None) -> None:
    def breaks() -> Iterator[str]:
        yield "a"
        raise ValueError("midway")

    async def breaks_later() -> AsyncIterator[str]:
        yield "a"
        raise ValueError("midway")

    for function in (breaks, breaks_later):
        outcome = await call(function, isolation=isolation)
        assert str(original(outcome)) == "midway"
        assert outcome.content == (Text("a"), Text("ValueError: midway"))


async def test_blocking_functions_run_off_the_loop_and_do_not_block_it() -> None:
    go = threading.Event()
    box = Toolbox()

    @box.tool
    def block() -> bool:
        return go.wait(SOON)

    @box.tool
    async def release() -> None:
        go.set()

    blocked, _ = await asyncio.wait_for(box.call_many([("block", None), ("release", None)]), SOON)

    assert blocked.value is True


async def test_blocking_generators_run_off_the_loop_also_when_a_coroutine_gives_them() -> None:
    def threads() -> Iterator[bool]:
        yield threading.current_thread() is threading.main_thread()

    async def gives() -> Any:
        return threads()

    assert (await call(threads)).value == [False]
    assert (await call(gives)).value == [False]


async def test_an_inline_function_runs_on_the_loop() -> None:
    def where() -> bool:
        asyncio.get_running_loop()
        return threading.current_thread() is threading.main_thread()

    assert (await call(where, isolation="inline")).value is True


@pytest.mark.parametrize("isolation", ["ray"])
def test_an_isolation_that_is_not_available_is_refused(isolation: Isolation) -> None:
    def never() -> None: ...

    with pytest.raises(DefinitionError, match=isolation):
        Toolbox().add(never, isolation=isolation)


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("I won't say")


class Own(BaseException):
    """An exception that is no `Exception`."""


@pytest.mark.parametrize(
    "error",
    [
        ValueError("plain"),
        SystemExit(3),
        StopIteration("stop"),
        StopAsyncIteration("stop"),
        Unspeakable(),
        ExceptionGroup("many", [ValueError("a"), OSError("b")]),
        BaseExceptionGroup("many", [SystemExit(1)]),
        asyncio.CancelledError("mine"),
        TimeoutError(),
        Own("own"),
        AssertionError(),
    ],
    ids=lambda error: type(error).__name__,
)
@pytest.mark.parametrize("isolation", [None, "inline"])
async def test_what_a_blocking_tool_raises_is_attached_itself(
    error: BaseException, isolation: str | None
) -> None:
    def fail() -> None:
        raise error

    outcome = await call(fail, isolation=isolation)

    assert original(outcome) is error
    assert outcome.text.startswith(type(error).__name__)


@pytest.mark.parametrize(
    "error",
    [
        ValueError("plain"),
        SystemExit(3),
        Unspeakable(),
        ExceptionGroup("many", [ValueError("a")]),
        BaseExceptionGroup("many", [SystemExit(1)]),
        asyncio.CancelledError("mine"),
        Own("own"),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_what_a_coroutine_raises_is_attached_itself(error: BaseException) -> None:
    async def fail() -> None:
        raise error

    async def fail_with_context(context: Context) -> None:
        raise error

    for function in (fail, fail_with_context):
        outcome = await call(function)
        assert original(outcome) is error
        with pytest.raises(type(error)) as raised:
            outcome.unwrap()
        assert raised.value is error


async def test_a_stop_iteration_in_a_coroutine_is_an_error_outcome() -> None:
    async def fail() -> None:
        raise StopIteration

    assert isinstance(original(await call(fail)), RuntimeError)


async def test_postprocess_sees_the_final_value_and_its_failure_is_an_outcome() -> None:
    async def later(value: Any) -> str:
        return f"<{value}>"

    def fails(value: Any) -> None:
        raise ValueError("post")

    assert (await call(greet, {"name": "ann"}, postprocess=str.upper)).value == "HELLO ANN"
    assert (await call(greet, {"name": "ann"}, postprocess=later)).value == "<hello ann>"
    assert (await call(yields, postprocess=len)).value == 3
    assert str(original(await call(greet, {"name": "ann"}, postprocess=fails))) == "post"


async def test_an_emit_after_the_end_of_another_call_is_only_that_tools_failure() -> None:
    kept: list[Context] = []
    box = Toolbox()

    @box.tool
    def keep(context: Context) -> None:
        kept.append(context)

    @box.tool
    def misuse() -> None:
        kept[0].emit("too late")

    await box.call("keep")
    outcome = await asyncio.wait_for(box.call("misuse"), SOON)

    assert outcome.status is Status.ERROR


class Wordless(Exception):
    def __str__(self) -> str:
        raise SystemExit(1)


class Unshowable:
    def __repr__(self) -> str:
        raise SystemExit(1)


async def test_what_raises_when_it_is_shown_does_not_leave_the_engine() -> None:
    heard: list[Outcome] = []
    box = Toolbox(observers=[heard.append])

    @box.tool
    async def speak() -> None:
        raise Wordless

    @box.tool
    async def show() -> Any:
        return Unshowable()

    spoken, shown = await box.call("speak"), await box.call("show")
    assert spoken.text == "Wordless: (its message can't be shown)"
    assert shown.text == '"<Unshowable that can\'t be shown>"'
    assert heard == [spoken, shown]


@pytest.mark.parametrize("presets", [{}, {"token": "12345678"}])
async def test_a_block_that_is_none_is_an_error_that_observers_hear(presets: Any) -> None:
    heard: list[Outcome] = []
    box = Toolbox(observers=[heard.append])

    @box.tool(presets=presets)
    async def made(token: str = "") -> Any:
        return Text(5)  # type: ignore[arg-type]

    @box.tool(presets={"token": "12345678"})
    async def changed(token: str = "") -> Any:
        text = Text("")
        text.text = 5  # type: ignore[assignment]
        return text

    first, second = await box.call("made"), await box.call("changed")
    assert first.text == "TypeError: the text of a Text must be text, not int"
    assert second.status is Status.ERROR
    assert isinstance(second.error, ToolFailed)
    assert isinstance(second.error.original, AttributeError)
    assert heard == [first, second]


@pytest.mark.parametrize("blocking", [False, True])
async def test_a_tool_that_raises_generator_exit_has_failed(blocking: bool) -> None:
    box = Toolbox()

    def leave() -> None:
        raise GeneratorExit("now")

    async def leave_later() -> None:
        await asyncio.sleep(0)
        leave()

    box.add(leave if blocking else leave_later, name="leave")
    assert (await box.call("leave")).text == "GeneratorExit: now"


def test_a_call_that_is_closed_with_its_loop_goes_down_quietly() -> None:
    heard: list[Outcome] = []
    box = Toolbox(observers=[heard.append])

    @box.tool
    async def forever() -> None:
        await asyncio.Event().wait()

    calling = box.call("forever")

    async def begin() -> None:
        task = asyncio.get_running_loop().create_task(calling)
        await asyncio.sleep(0.01)
        task._log_destroy_pending = False  # type: ignore[attr-defined]

    loop = asyncio.new_event_loop()
    loop.run_until_complete(begin())
    calling.close()
    loop.close()
    assert [outcome.status for outcome in heard] == [Status.INTERRUPTED]


async def test_an_outcome_that_a_tool_returns_becomes_its_own() -> None:
    box = Toolbox()

    @box.tool
    async def count() -> AsyncIterator[str]:
        yield "one"
        yield "two"

    @box.tool
    async def fail() -> None:
        raise ValueError("no such thing")

    @box.tool(permission="deny")
    async def denied() -> None: ...

    @box.tool(presets={"token": "12345678"})
    async def secret(token: str) -> str:
        return token

    @box.tool
    async def pass_on(name: str) -> Any:
        return await box.call(name)

    counted = await box.call("pass_on", {"name": "count"})
    assert (counted.value, counted.content) == (["one", "two"], (Text("one"), Text("two")))
    failed = await box.call("pass_on", {"name": "fail"})
    assert (failed.status, failed.text) == (Status.ERROR, "ValueError: no such thing")
    with pytest.raises(ValueError, match="no such thing"):
        failed.unwrap()
    refused = await box.call("pass_on", {"name": "denied"})
    assert refused.status is Status.ERROR
    assert "CallDenied: The call of denied was denied" in refused.text
    assert "12345678" not in (await box.call("pass_on", {"name": "secret"})).text
