"""One span per call, where OpenTelemetry is configured, and nothing where it is not."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from wieldy import ActiveCall, Call, Context, Handler, Outcome, Secret, Status, Toolbox

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan

Spans = Callable[[], "list[ReadableSpan]"]
SOON = 120.0


def facts(span: "ReadableSpan") -> dict[str, Any]:
    return dict(span.attributes or {})


async def test_a_call_is_a_span_under_the_agreed_names(spans: Spans) -> None:
    box = Toolbox()

    @box.tool
    async def add(a: int, b: int) -> int:
        return a + b

    call = Call("add", {"a": 1, "b": 2}, provider_id="toolu_1")
    outcome = await box.view(agent="ann").call(call, session="s1")

    (span,) = spans()
    assert span.name == "execute_tool add"
    assert facts(span) == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "add",
        "gen_ai.tool.type": "function",
        "gen_ai.tool.call.id": "toolu_1",
        "gen_ai.agent.name": "ann",
        "gen_ai.conversation.id": "s1",
        "wieldy.call.id": outcome.call.id,
        "wieldy.status": "ok",
    }
    assert span.status.is_ok
    assert span.parent is None
    assert outcome.value == 3


async def test_nested_calls_are_children_across_threads_and_the_border(spans: Spans) -> None:
    box = Toolbox()

    @box.tool
    async def leaf() -> None: ...

    @box.tool
    def middle() -> None:
        box.call_sync("leaf")

    @box.tool
    async def root() -> None:
        await box.call("middle")

    outcome = await box.call("root")

    leaf_span, middle_span, root_span = spans()
    assert [leaf_span.name, middle_span.name, root_span.name] == [
        "execute_tool leaf",
        "execute_tool middle",
        "execute_tool root",
    ]
    assert root_span.parent is None
    assert middle_span.parent is not None
    assert middle_span.parent.span_id == root_span.context.span_id
    assert leaf_span.parent is not None
    assert leaf_span.parent.span_id == middle_span.context.span_id
    assert facts(middle_span)["wieldy.call.parent"] == outcome.call.id


async def test_failures_carry_their_type_and_message(spans: Spans) -> None:
    box = Toolbox()

    @box.tool
    async def fail() -> None:
        raise ValueError("no")

    @box.tool(timeout=0.01)
    async def slow() -> None:
        await asyncio.Event().wait()

    @box.tool(permission="deny")
    async def off() -> None: ...

    for name in ("fail", "slow", "off", "nope"):
        await asyncio.wait_for(box.call(name), SOON)

    assert [
        (facts(s)["wieldy.status"], facts(s)["error.type"], s.status.is_ok) for s in spans()
    ] == [
        ("error", "ValueError", False),
        ("timeout", "CallTimeout", False),
        ("denied", "CallDenied", False),
        ("error", "ToolNotFound", False),
    ]
    assert spans()[0].status.description == "ValueError: no"
    assert [span.events for span in spans()] == [()] * 4


async def test_a_parked_call_is_no_failure(spans: Spans) -> None:
    box = Toolbox()

    @box.tool(permission="confirm")
    async def wipe() -> None: ...

    await box.call("wipe")

    (span,) = spans()
    assert facts(span)["wieldy.status"] == "pending"
    assert "error.type" not in facts(span)


async def test_stopped_calls_end_their_span(spans: Spans) -> None:
    box = Toolbox()
    ids: asyncio.Queue[str] = asyncio.Queue()

    @box.tool
    async def wait(context: Context) -> None:
        ids.put_nowait(context.call_id)
        await asyncio.Event().wait()

    cancelled = asyncio.create_task(box.call("wait"))
    interrupted = asyncio.create_task(box.call("wait"))
    _, second = [await asyncio.wait_for(ids.get(), SOON) for _ in range(2)]
    cancelled.cancel()
    await box.interrupt(second)
    await asyncio.wait([cancelled, interrupted], timeout=SOON)

    assert cancelled.cancelled()
    assert interrupted.result().status is Status.INTERRUPTED
    assert [facts(span)["wieldy.status"] for span in spans()] == ["interrupted"] * 2


async def test_content_is_off_by_default(spans: Spans) -> None:
    box = Toolbox()

    @box.tool
    async def echo(text: str) -> str:
        return text

    await box.call("echo", {"text": "private words"})
    await box.call("echo", {"text": 7, "nope": "private words"})

    assert "private words" not in json.dumps([facts(span) for span in spans()])


async def test_content_is_captured_when_asked_for(spans: Spans) -> None:
    box = Toolbox(capture_content=True)

    @box.tool
    async def echo(text: str) -> str:
        return f"<{text}>"

    await box.call("echo", '{"text": "words"}')

    (span,) = spans()
    assert json.loads(facts(span)["gen_ai.tool.call.arguments"]) == {"text": "words"}
    assert facts(span)["gen_ai.tool.call.result"] == "<words>"


@pytest.mark.parametrize("arguments", ["{", '"text"', '{"text": ', {"text": object()}, 7])
async def test_capturing_what_can_not_be_read_does_not_change_the_outcome(
    spans: Spans, arguments: Any
) -> None:
    async def echo(text: str) -> str:
        return text

    plain, captured = Toolbox(), Toolbox(capture_content=True)
    plain.add(echo)
    captured.add(echo)

    expected = await plain.call("echo", arguments)
    outcome = await captured.call("echo", arguments)

    assert (outcome.status, outcome.text) == (expected.status, expected.text)
    assert (await captured.call("nope", arguments)).status is Status.ERROR


async def test_no_secret_is_in_any_span(spans: Spans) -> None:
    box = Toolbox(capture_content=True)

    async def leak(api_key: str, token: Secret, n: int) -> str:
        if n:
            raise ValueError(f"{api_key} {token.get_secret_value()}")
        return f"{api_key} {token.get_secret_value()}"

    box.add(leak, presets={"api_key": "hidden-preset"})
    await box.call("leak", {"token": "hidden-token", "n": 0})
    await box.call("leak", {"token": "hidden-token", "n": 1})
    await box.call("leak", {"token": "hidden-token", "n": "x"})
    await box.call("leak", '{"token": "hidden-token"}')

    assert len(spans()) == 4
    shown = [(span.name, facts(span), span.status.description) for span in spans()]
    assert "hidden" not in repr(shown)


async def test_a_middleware_outcome_without_an_error_still_ends_its_span(spans: Spans) -> None:
    async def refuse(active: ActiveCall, proceed: Handler) -> Outcome:
        return Outcome(active.call, Status.DENIED)

    box = Toolbox(middleware=[refuse])

    @box.tool
    async def never() -> None: ...

    await box.call("never")

    (span,) = spans()
    assert facts(span)["error.type"] == "CallDenied"
    assert "a middleware ended the call" in str(span.status.description)


async def test_streams_are_traced_too(spans: Spans) -> None:
    box = Toolbox()

    @box.tool
    def parts() -> Any:
        yield "a"

    assert [item async for item in box.stream("parts")]
    assert [span.name for span in spans()] == ["execute_tool parts"]


UNCONFIGURED = """
import asyncio, sys
from wieldy import Toolbox

box = Toolbox()

@box.tool
async def later(): return 1

@box.tool
def blocking(): return box.call_sync("later").unwrap()

def call_all():
    for name in ("later", "blocking"):
        assert asyncio.run(box.call(name)).unwrap() == 1
        assert box.call_sync(name).unwrap() == 1

call_all()
assert not [name for name in sys.modules if name.startswith("opentelemetry")]

import opentelemetry.trace as trace

asked = []
trace.get_tracer = lambda *args, **options: asked.append(args)
call_all()
assert asked == []
assert not [name for name in sys.modules if name.startswith("opentelemetry.sdk")]
print("done")
"""


def test_nothing_is_loaded_or_made_where_it_is_not_configured() -> None:
    done = subprocess.run(
        [sys.executable, "-c", UNCONFIGURED],
        capture_output=True,
        text=True,
        timeout=3 * SOON,
        check=False,
    )

    assert (done.stdout, done.returncode) == ("done\n", 0), done.stderr


LOADED = """
import asyncio, os, sys
import mcp, opentelemetry.trace as trace
from wieldy import Toolbox

box = Toolbox()

@box.tool
async def traced() -> bool:
    return trace.get_current_span().get_span_context().is_valid

asked, ask = [], trace.get_tracer_provider
trace.get_tracer_provider = lambda: asked.append(1) or ask()

async def call_often():
    return {(await box.call("traced")).unwrap() for _ in range(100)}

assert asyncio.run(call_often()) == {False}
assert len(asked) <= 2, asked
"""
CONFIGURED = {
    "in code": """
from opentelemetry.sdk.trace import TracerProvider

trace.set_tracer_provider(TracerProvider())
""",
    "by the variable": """
os.environ["OTEL_PYTHON_TRACER_PROVIDER"] = "sdk_tracer_provider"
""",
}


@pytest.mark.parametrize("configure", CONFIGURED.values(), ids=CONFIGURED.keys())
def test_loading_the_api_costs_a_call_nothing_until_it_is_configured(configure: str) -> None:
    program = f"{LOADED}{configure}\nassert asyncio.run(call_often()) == {{True}}"

    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=3 * SOON,
        check=False,
    )

    assert done.returncode == 0, done.stderr
