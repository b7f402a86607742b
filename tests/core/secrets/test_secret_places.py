"""One secret, sent in each way there is, is looked for in every place where it could appear."""

import json
import logging
import sqlite3
import traceback
from collections.abc import AsyncIterator, Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from mcp import Client
from mcp_types import ElicitResult
from pydantic import SecretBytes

import wieldy.mcp
from wieldy import Context, InputNeeded, Outcome, Progress, Resource, Secret, Status, Toolbox
from wieldy.core.block import Block
from wieldy.core.secrets.secret import MASK

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan

Spans = Callable[[], "list[ReadableSpan]"]
Do = Callable[[Context, str], Any]
KEY = "hunter2-hunter2"


@dataclass
class Login:
    user: str
    password: Secret


# How the secret comes to the tool: its annotation, what is sent, presets, deps.
WAYS: dict[str, tuple[Any, Any, dict[str, Any], Any]] = {
    "argument": (Secret, KEY, {}, None),
    "bytes": (SecretBytes, KEY, {}, None),
    "nested argument": (Login, {"user": "ann", "password": KEY}, {}, None),
    "preset": (str, "x", {"api_key": KEY}, None),
    "marked preset": (str, "x", {"thing": Secret(KEY)}, None),
    "header": (str, "x", {"headers": {"Authorization": f"Bearer {KEY}"}}, None),
    "url": (str, "x", {"address": f"postgresql://app:{KEY}@db/x"}, None),
    "deps": (str, "x", {}, {"db": Login("ann", Secret(KEY))}),
}


async def returns(context: Context, key: str) -> Any:
    return f"with {key}"


async def returns_data(context: Context, key: str) -> Any:
    return {"deep": [{key: f"a {key}"}], "bytes": key.encode()}


async def returns_resource(context: Context, key: str) -> Any:
    return Resource(f"http://{key}/", text=f"a {key}", name=key)


async def raises(context: Context, key: str) -> Any:
    try:
        raise KeyError(key)
    except KeyError:
        raise ValueError(f"not {key!r}") from OSError(key)


async def emits(context: Context, key: str) -> Any:
    await context.progress(1, 2, f"with {key}")
    await context.emit(f"and {key}")
    context.report(cost=1, note=f"of {key}", **{key: [key]})
    return None


async def is_long(context: Context, key: str) -> Any:
    return f"{key} " * 500


async def asks(context: Context, key: str) -> Any:
    if context.answers is None:
        raise InputNeeded.form(f"for {key}?", {"type": "object", "properties": {}})
    return f"asked {key}"


DEEDS: list[Do] = [returns, returns_data, returns_resource, raises, emits, is_long, asks]


def make_box(store: Path, way: str, deed: Do, heard: list[Outcome], **options: Any) -> Toolbox:
    kind, _, presets, _ = WAYS[way]
    observers = [heard.append]
    box = Toolbox(store=f"sqlite:///{store}", observers=observers, capture_content=True, **options)

    async def act(context: Context, given: Any, times: int = 1, **_: Any) -> Any:
        """Act."""
        return await deed(context, KEY)

    act.__annotations__["given"] = kind
    box.add(act, presets=presets, permission="confirm", max_result=2000)
    box.add(act, name="at_once", presets=presets, max_result=2000)
    return box


def told(outcome: Outcome) -> list[str]:
    """All that an outcome tells."""
    error = outcome.error
    cause = [] if error is None else traceback.format_exception(error)
    shown = [json.dumps(outcome.to_dict(), default=repr), repr(outcome), outcome.text, *cause]
    return [*shown, repr(outcome.metadata), repr(outcome.call), repr(outcome.content)]


def shown(item: Block | Progress | Outcome) -> list[str]:
    return told(item) if isinstance(item, Outcome) else [repr(item)]


def written(store: Path) -> str:
    with closing(sqlite3.connect(store)) as connection:
        tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        names = [name for (name,) in tables]
        return "".join(repr(connection.execute(f"SELECT * FROM {n}").fetchall()) for n in names)


async def every(items: AsyncIterator[Block | Progress | Outcome]) -> list[str]:
    return [text async for item in items for text in shown(item)]


@pytest.mark.parametrize("deed", DEEDS)
@pytest.mark.parametrize("way", WAYS)
async def test_a_secret_is_in_no_place_where_it_could_appear(
    way: str, deed: Do, tmp_path: Path, spans: Spans, caplog: pytest.LogCaptureFixture
) -> None:
    store, heard = tmp_path / "store.db", list[Outcome]()
    _, sent, _, deps = WAYS[way]
    arguments = {"given": sent, "times": "2"}
    wrong = {**arguments, "times": KEY}
    places: dict[str, list[str]] = {}
    with caplog.at_level(logging.DEBUG):
        async with make_box(store, way, deed, heard) as box:
            places["stream"] = await every(box.stream("at_once", arguments, deps=deps))
            places["refused"] = told(await box.call("at_once", wrong, deps=deps))
            receipt = await box.call("act", arguments, deps=deps)
            assert receipt.status is Status.PENDING
            waiting = await box.pending()
            places["pending"] = [json.dumps(parked.to_dict()) for parked in waiting]
            places["receipt"] = told(receipt)
            outcome = await box.approve(receipt.call.id)
            if outcome.status is Status.PENDING:
                asked = await box.pending()
                places["question"] = [json.dumps(parked.to_dict()) for parked in asked]
                outcome = await box.answer(receipt.call.id, {"answer": {}})
            places["approved"] = told(outcome)
            for parked in await box.pending():
                await box.deny(parked.id)
            entries = await box.ledger.list()
            places["ledger"] = [text for entry in entries for text in told(entry)]
            schemas = [box.schemas(kind) for kind in ("openai", "anthropic", "gemini", "mcp")]
            places["schemas"] = [json.dumps(schemas)]
        places["store"] = [written(store)]
    places["observers"] = [text for outcome in heard for text in told(outcome)]
    places["spans"] = [
        repr((s.name, dict(s.attributes or {}), s.status, s.events)) for s in spans()
    ]
    places["log"] = [caplog.text]

    leaks = [place for place, texts in places.items() if any(KEY in text for text in texts)]
    assert leaks == []
    assert len(places["spans"]) >= 3 and "act" in places["store"][0]
    everything = "".join(text for texts in places.values() for text in texts)
    assert MASK in everything


@pytest.mark.parametrize("deed", DEEDS)
@pytest.mark.parametrize("way", [way for way in WAYS if way != "deps"])
async def test_a_secret_is_in_nothing_that_an_mcp_client_is_told(
    way: str, deed: Do, tmp_path: Path
) -> None:
    heard: list[Outcome] = []
    said: list[str] = []

    async def answer(context: Any, params: Any) -> ElicitResult:
        said.append(repr(params))
        approves = "approve" in repr(params.requested_schema)
        return ElicitResult(action="accept", content={"approve": True} if approves else {})

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        said.append(str(message))

    arguments = {"given": WAYS[way][1], "times": "2"}
    async with make_box(tmp_path / "store.db", way, deed, heard) as box:
        server = wieldy.mcp.server(box)
        async with Client(server, elicitation_callback=answer) as client:
            for name in ("at_once", "act"):
                result = await client.call_tool(name, arguments, progress_callback=hear)
                said.append(result.model_dump_json())
            wrong = {**arguments, "times": KEY}
            said.append((await client.call_tool("act", wrong)).model_dump_json())
            said.append((await client.list_tools()).model_dump_json())

    assert len(said) >= 5
    assert [text for text in said if KEY in text] == []
